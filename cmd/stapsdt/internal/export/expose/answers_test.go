//go:build linux

package expose

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scrapes sends n scrapes at once, and returns their statuses and texts when they have ended.
func scrapes(h http.Handler, n int, accept string) (ended func() map[string]int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for range n {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprintf("%d %s %s", w.Code, w.Header().Get("Content-Type"), w.Body)]++
		})
	}
	return func() map[string]int { all.Wait(); return got }
}

// waitFor waits until as many scrapes wait for answers.
func (s *answers) waitFor(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.count == n }, testenv.Patience, time.Millisecond)
}

// TestOneAnswer: an answer is made once for all scrapes that wait for the same, never two at a time, and after the last of them
// has come.
func TestOneAnswer(t *testing.T) {
	may, begun := make(chan bool), make(chan bool, 100)
	var made, making atomic.Int32
	s := newAnswers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if making.Add(1) != 1 {
			t.Error("two answers are made at once")
		}
		defer making.Add(-1)
		begun <- true
		<-may
		w.Header().Set("Content-Type", r.Header.Get("Accept"))
		fmt.Fprintf(w, "answer %d", made.Add(1))
	}))
	first := scrapes(s, 1, "text")
	<-begun
	same, other := scrapes(s, 50, "text"), scrapes(s, 50, "protobuf")
	s.waitFor(t, 101)
	close(may)
	require.Equal(t, map[string]int{"200 text answer 1": 1}, first())
	texts, protobufs := same(), other()
	require.EqualValues(t, 3, made.Load())
	require.Len(t, texts, 1)
	require.Len(t, protobufs, 1)
	require.Equal(t, 50, texts["200 text answer 2"]+texts["200 text answer 3"])
	require.Equal(t, 50, protobufs["200 protobuf answer 2"]+protobufs["200 protobuf answer 3"])
	require.Zero(t, len(s.room), "an answer is kept")
	require.Empty(t, s.next)
}

// TestManyScrapes: of those at the same time, the ones beyond the limit are refused.
func TestManyScrapes(t *testing.T) {
	may, text := make(chan bool), strings.Repeat("all", bufferSize)
	s := newAnswers(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-may
		io.WriteString(w, text[:100])
		io.WriteString(w, text[100:])
	}))
	most := scrapes(s, maxScrapes, "")
	s.waitFor(t, maxScrapes)
	require.Equal(t, map[string]int{"503 text/plain; charset=utf-8 too many scrapes\n": 1}, scrapes(s, 1, "")())
	close(may)
	require.Equal(t, map[string]int{"200  " + text: maxScrapes}, most())
}

// slowWriter is a client that reads its answer when it may.
type slowWriter struct {
	http.ResponseWriter
	reads, may chan bool
}

func (w slowWriter) Write(data []byte) (int, error) {
	w.reads <- true
	<-w.may
	return w.ResponseWriter.Write(data)
}

// TestSlowScrapes: clients that read slowly keep a limited number of answers in memory, and no answer is made beyond it.
func TestSlowScrapes(t *testing.T) {
	var made atomic.Int32
	s := newAnswers(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { made.Add(1); io.WriteString(w, "all") }))
	s.patience = testenv.Patience
	reads, may := make(chan bool), make(chan bool)
	var slow sync.WaitGroup
	for range maxAnswers {
		slow.Go(func() {
			w := httptest.NewRecorder()
			s.ServeHTTP(slowWriter{w, reads, may}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			assert.Equal(t, "all", w.Body.String())
		})
		<-reads
	}
	more := scrapes(s, 20, "")
	s.waitFor(t, maxAnswers+20)
	require.EqualValues(t, maxAnswers, made.Load())
	close(may)
	require.Equal(t, map[string]int{"200  all": 20}, more())
	require.EqualValues(t, maxAnswers+1, made.Load())
	slow.Wait()
	require.Zero(t, len(s.room))
}

// TestNoRoom: where clients never read their answers, further scrapes are refused after some time.
func TestNoRoom(t *testing.T) {
	s := newAnswers(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { t.Error("an answer was made") }))
	s.patience = 0
	for range maxAnswers {
		s.room <- struct{}{}
	}
	require.Equal(t, map[string]int{"503  ": 3}, scrapes(s, 3, "")())
	require.Len(t, s.room, maxAnswers)
}
