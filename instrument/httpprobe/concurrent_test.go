package httpprobe

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// TestGoroutines: goroutines of middleware use their requests while a handler returns, and those that it leaves read its
// request, in ways that are correct. The race detector sees what is wrong.
func TestGoroutines(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	handler := NewServer(p).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r)
		r.FormValue("q")
		answered := make(chan bool)
		go func() { // as by middleware that limits the time
			r.Host = "other"
			w.Write([]byte("text"))
			close(answered)
		}()
		<-answered
		go func() { // which is left
			time.Sleep(time.Millisecond)
			if r.FormValue("q") != "r" || r.PathValue("id") != "7" || r.Host != "other" {
				panic("changed")
			}
		}()
	}))
	eventtest.Unchanged(t, p, func(seen *eventtest.Log) {
		for range 20 {
			r, done := httptest.NewRequest("POST", "/items/7?q=r", nil), make(chan bool)
			go func() {
				defer close(done)
				for range 100 {
					if r.Context().Err() != nil || len(r.Header) > 0 || r.Method != "POST" || r.TLS != nil {
						panic("changed")
					}
					runtime.Gosched()
				}
			}()
			handler.ServeHTTP(httptest.NewRecorder(), r)
			<-done
			seen.Addf("%s %s %v", r.Pattern, r.PathValue("id"), r.Form)
		}
	})
}

// TestLeft: a goroutine that a handler or a transport leaves sets fields of its request, and outer code, which waits for the
// goroutine, finds the request as it was. The race detector sees whether a field was read meanwhile, which could be half set.
func TestLeft(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	probetest.Record(t, p)
	long := strings.Repeat("long", 1<<10)
	leave := func(r *http.Request) (end func()) {
		began, returned, ended := make(chan bool), make(chan bool), make(chan bool)
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				for _, text := range []string{"a", long} {
					r.Method, r.Host, r.RemoteAddr, r.RequestURI = text, text, text, text
					r.Body, r.TransferEncoding = io.NopCloser(strings.NewReader(text)), []string{text}[:i&1]
				}
				if i == 0 {
					close(began)
				}
				select {
				case <-returned:
					return
				default:
				}
			}
		}()
		<-began
		return func() { close(returned); <-ended }
	}
	var end func()
	handler := NewServer(p).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { end = leave(r) }))
	through := NewClient(p).Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		end = leave(r)
		return &http.Response{Body: http.NoBody}, nil
	}))
	for range 100 {
		r := httptest.NewRequest("GET", "/", nil)
		before := *r
		handler.ServeHTTP(httptest.NewRecorder(), r)
		end()
		require.Equal(t, before, *r)
		_, err := through.RoundTrip(r)
		end()
		require.NoError(t, err)
		require.Equal(t, before, *r)
	}
}

// TestToggled: requests that begin or end when a tracer attaches or detaches get the same
// answers.
func TestToggled(t *testing.T) {
	p := eventtest.Provider(t, "httpprobe")
	handler := NewServer(p).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
		changes["mux"](r)
		fmt.Fprint(w, r.Trailer, r.PathValue("id"))
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		fmt.Fprint(w, r.Trailer, r.PathValue("id"), r.Pattern)
	}))
	defer server.Close()
	client := &http.Client{Transport: NewClient(p).Transport(server.Client().Transport)}
	done := make(chan error)
	const workers, n = 4, 200
	for range workers {
		go func() {
			for i := range n {
				body := &trailing{Reader: strings.NewReader("body"), trailer: http.Header{"Late": nil}}
				r, _ := http.NewRequest("POST", server.URL+fmt.Sprint("/items/", i), body)
				r.Trailer = body.trailer
				answer, err := client.Do(r)
				if err != nil {
					done <- err
					return
				}
				text, err := io.ReadAll(answer.Body)
				if want := fmt.Sprintf("bodymap[Late:[x]]%dmap[Late:[x]]%[1]d/items/{id}", i); string(text) != want {
					done <- fmt.Errorf("%q instead of %q: %v", text, want, err)
					return
				}
				answer.Body.Close()
			}
			done <- nil
		}()
	}
	for ended := 0; ended < workers; {
		stop := p.Observe(func(*stapsdt.Event) {})
		runtime.Gosched()
		stop()
		select {
		case err := <-done:
			require.NoError(t, err)
			ended++
		default:
		}
	}
}

// trailing is a body that sets a trailer when it has been read.
type trailing struct {
	io.Reader
	trailer http.Header
}

func (b *trailing) Read(data []byte) (int, error) {
	n, err := b.Reader.Read(data)
	if err == io.EOF {
		b.trailer.Set("Late", "x")
	}
	return n, err
}
