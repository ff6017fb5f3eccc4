package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

// The picture in docs/ is made with
//
//	go test -c -o /tmp/shop ./internal/test/browser
//	/tmp/shop -test.run TestPage -screenshot docs/debugprobe.png
//
// and then reduced to a palette of 256 colors.
var screenshot = flag.String("screenshot", "", "write a picture of the page to this `file`")

// shop is a program with probes, which it fires all the time.
type shop struct {
	server   *httptest.Server
	url      string
	requests *stapsdt.Provider
	recorder *proberec.Recorder // which is not started
}

func newShop(t *testing.T) *shop {
	var opts []stapsdt.Option
	if *screenshot == "" {
		opts = append(opts, stapsdt.WithDir(t.TempDir()+"/images"))
	}
	p, jobs := stapsdt.NewProvider("shop", opts...), stapsdt.NewProvider("jobs")
	start := stapsdt.NewProbe3[uint64, string, string](p, "request__start", "id", "method", "path")
	done := stapsdt.NewProbe6[uint64, string, string, int32, time.Duration, int64](p, "request__done", "id", "method", "path", "status", "elapsed", "bytes")
	query := stapsdt.NewProbe3[string, int64, time.Duration](p, "query__done", "text", "rows", "elapsed")
	lookup := stapsdt.NewProbe2[string, bool](p, "cache__lookup", "key", "hit")
	stapsdt.NewProbe1[string](jobs, "job__failed", "name")
	require.NoError(t, p.Load())
	recorder := proberec.New(1<<20, p)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		paths := []string{"/api/items", "/api/items/17", "/api/orders", "/report", "/"}
		usual := []float64{1.2, .6, 4, 90, .3}
		for i := uint64(1); ctx.Err() == nil; i++ {
			n := min(random.IntN(9), random.IntN(9)) % len(paths)
			elapsed := time.Duration(usual[n] * 1e6 * (.5 + (random.ExpFloat64()+random.ExpFloat64())/4))
			method, status := "GET", int32(200)
			if n == 2 {
				method = "POST"
			}
			if random.IntN(12) == 0 {
				status = 503
			}
			start.Fire(i, method, paths[n])
			lookup.Fire(paths[n], i%3 != 0)
			query.Fire("SELECT name FROM item WHERE id = ?", int64(random.IntN(20)), elapsed/3)
			done.Fire(i, method, paths[n], status, elapsed, random.Int64N(20_000))
			time.Sleep(time.Duration(10+8*float64(i%600)/600) * time.Millisecond)
		}
	})
	mux := http.NewServeMux()
	mux.Handle("/debug/probes/", debugprobe.Handler(recorder))
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		cancel()
		wg.Wait()
		recorder.Stop()
		require.NoError(t, p.Close())
		require.NoError(t, jobs.Close())
	})
	return &shop{server: server, url: server.URL + "/debug/probes/", requests: p, recorder: recorder}
}

func needsBrowser(t *testing.T) {
	testenv.Long(t, "it starts a browser")
	testenv.NotRaced(t, "a browser takes much of the machine, and debugprobe's own tests are raced")
}

func TestPage(t *testing.T) {
	needsBrowser(t)
	s := newShop(t)
	b := open(t, 1280, 1200)
	b.theme("light")
	b.load(s.url)
	b.wait(`document.querySelectorAll(".probe").length >= 6`)
	require.Contains(t, b.text("#program"), fmt.Sprintf("process %d", os.Getpid()))
	require.Contains(t, b.text("#providers"), "job__failed")
	require.Contains(t, b.text("#providers"), "not loaded")
	require.True(t, b.visible("#welcome"))
	require.False(t, b.visible("#watch"))

	b.click(`[data-id="shop:request__done"]`)
	b.wait(`document.querySelector("#watch").checkVisibility()`)
	require.Equal(t, "shop:request__done", b.text("#title"))
	require.Equal(t, "(id uint64, method string, path string, status int32, elapsed time.Duration, bytes int64)", b.text("#signature"))
	require.Contains(t, b.text("#place"), "Loaded from "+s.requests.Path())
	require.Equal(t, "elapsed", b.eval(`document.querySelector("#value").value`))
	require.Equal(t, `A Go expression, such as elapsed > 10ms && method != ""`, b.eval(`document.querySelector("#filter").placeholder`), "the duration, and no id")

	b.write("#filter", `status == 200 && strings.HasPrefix(path, "/api/")`)
	b.write("#by", "path")
	b.click("#start")
	b.wait(`document.querySelectorAll("#rows tr").length >= 20`)
	b.wait(`document.querySelectorAll("#histogram .group").length == 4`) // three paths and the axis
	b.wait(`document.querySelectorAll("#rate-chart polyline").length == 1`)
	b.wait(`document.querySelector('[data-id="shop:request__done"]').innerText.includes("enabled")`)
	require.Contains(t, b.text("#status"), "Watching. It stops by itself in about")
	if *screenshot != "" {
		b.write("#filter", `status == 200`)
		b.press("Enter")
		time.Sleep(45 * time.Second)
		b.eval(`document.activeElement.blur()`)
		b.screenshot(*screenshot)
		return
	}
	// Every row is what the filter asks for.
	for _, row := range b.eval(`[...document.querySelectorAll("#rows tr")].map(r => [...r.cells].map(c => c.innerText))`).([]any) {
		cells := row.([]any)
		require.Len(t, cells, 7)
		require.Regexp(t, `^\d\d:\d\d:\d\d\.\d\d\d$`, cells[0])
		require.Regexp(t, "^/api/", cells[3])
		require.Equal(t, "200", cells[4])
		require.Regexp(t, `^[\d.]+ (µs|ms|s)$`, cells[5])
	}
	require.NotEqual(t, "0", b.text("#matched"))
	require.Equal(t, b.eval(`document.querySelectorAll("#histogram rect.bars").length > 5`), true)
	require.Contains(t, b.text("#histogram"), "/api/orders")

	b.click("#pause")
	time.Sleep(300 * time.Millisecond)
	first := b.text("#rows tr")
	time.Sleep(500 * time.Millisecond)
	require.Equal(t, first, b.text("#rows tr"), "the list is paused")
	b.click("#start")
	b.wait(`document.querySelector("#status").innerText === "Stopped."`)
	require.Equal(t, "Start", b.text("#start"))
	require.Eventually(t, func() bool { return !observed(s.requests, "request__done") }, testenv.Patience, 10*time.Millisecond)

	// The next probe, without a filter, until the time is over.
	b.click(`[data-id="shop:cache__lookup"]`)
	require.Empty(t, b.eval(`document.querySelector("#filter").value`))
	b.write("#by", "hit")
	b.eval(`document.querySelector("#seconds").value = "10"`)
	b.click("#start")
	b.wait(`document.querySelector("#status").innerText.includes("the time was over")`)
	require.Contains(t, b.text("#histogram"), "true")
	require.Contains(t, b.text("#histogram"), "false")
	require.Equal(t, "shop:cache__lookup", b.eval(`decodeURIComponent(location.hash.slice(1))`))
	require.Empty(t, b.complaints())
}

func observed(p *stapsdt.Provider, name string) bool {
	for _, probe := range p.Probes() {
		if probe.Name() == name {
			return probe.Enabled()
		}
	}
	return false
}

// TestWrongFilter: the page shows where a filter is wrong, and puts the cursor there.
func TestWrongFilter(t *testing.T) {
	needsBrowser(t)
	s := newShop(t)
	b := open(t, 1000, 800)
	b.load(s.url + "#" + "shop%3Arequest__done")
	b.wait(`document.querySelector("#watch").checkVisibility()`)
	b.write("#filter", `path == "é" && sttus == 200`)
	b.press("Enter")
	b.wait(`document.querySelector("#problem").checkVisibility()`)
	lines := strings.Split(b.text("#problem"), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], "undefined: sttus; the nearest name is status; the names are id, method, path, status")
	require.Equal(t, `path == "é" && sttus == 200`, lines[1])
	require.Equal(t, `               ^`, lines[2])
	require.EqualValues(t, 15, b.eval(`document.activeElement.id === "filter" && document.activeElement.selectionStart`))
	require.Equal(t, "Start", b.text("#start"))
	b.write("#filter", `status == 200`)
	b.press("Enter")
	b.wait(`document.querySelectorAll("#rows tr").length > 0`)
	require.False(t, b.visible("#problem"))

	s.server.CloseClientConnections()
	b.wait(`document.querySelector("#status").innerText.includes("The connection was lost")`)
}

// TestKeyboard: a probe can be found, watched and left without a mouse.
func TestKeyboard(t *testing.T) {
	needsBrowser(t)
	s := newShop(t)
	b := open(t, 1000, 800)
	b.load(s.url)
	b.wait(`document.querySelectorAll(".probe").length >= 6`)
	b.press("/")
	require.Equal(t, "find", b.eval(`document.activeElement.id`))
	b.write("#find", "request")
	b.wait(`document.querySelectorAll("#providers .probe").length === 2`)
	b.press("ArrowDown")
	b.press("ArrowDown")
	b.press("ArrowUp")
	b.press("ArrowDown")
	b.press("Enter")
	b.wait(`document.querySelector("#title").innerText === "shop:request__done"`)
	b.press("/")
	require.Equal(t, "filter", b.eval(`document.activeElement.id`))
	b.press("Enter")
	b.wait(`document.querySelectorAll("#rows tr").length > 0`)
	b.press("Escape")
	b.wait(`document.querySelector("#status").innerText === "Stopped."`)
	require.Empty(t, b.complaints())
}

// TestHostileText: names and arguments that are HTML are shown, and nothing else.
func TestHostileText(t *testing.T) {
	needsBrowser(t)
	const attack = `<img/src=x/onerror="window.pwned=1"><script>window.pwned=1</script>'"&lt;`
	p := stapsdt.NewProvider(`<img+src=x+onerror=window.pwned=1>`)
	defer p.Close()
	probe, err := p.AddProbe(`<svg+onload=window.pwned=1>`, stapsdt.String, stapsdt.Int64)
	require.NoError(t, err)
	recorder := proberec.New(1, p)
	recorder.Start()
	defer recorder.Stop()
	server := httptest.NewServer(debugprobe.Handler(recorder))
	defer server.Close()
	defer server.CloseClientConnections()
	b := open(t, 1000, 800)
	b.load(server.URL + "/")
	b.click("#providers .probe")
	b.wait(`document.querySelector("#watch").checkVisibility()`)
	require.Equal(t, p.Name()+":"+probe.Name(), b.text("#title"))
	b.write("#by", "arg0")
	b.click("#start")
	b.wait(`document.querySelector("#results").checkVisibility()`)
	texts := []string{attack, "a\n\nevent: end\ndata: {}\n\n", "\x1b[31m\x00\u202egnp.exe", "\xff"}
	for i, text := range texts {
		require.NoError(t, probe.Fire(text, int64(1)<<62+int64(i)))
	}
	b.wait(`document.querySelectorAll("#rows tr").length === 4`)
	b.wait(`document.querySelectorAll("#histogram .group").length === 4`)
	shown := b.eval(`[...document.querySelectorAll("#rows tr")].map(r => r.cells[1].textContent)`).([]any)
	require.Equal(t, []any{"\ufffd", `␛[31m␀\u202egnp.exe`, "a␊␊event: end␊data: {}␊␊", attack}, shown)
	require.Equal(t, "4611686018427387907", b.eval(`document.querySelector("#rows tr").cells[2].textContent`), "exactly")
	require.Contains(t, b.text("#histogram"), attack)
	b.click("#open-recorder")
	b.wait(`document.querySelectorAll("#recorded tr").length === 4`)
	require.Contains(t, b.text("#recorded"), "arg0="+attack)
	require.Equal(t, "undefined", b.eval("typeof window.pwned"))
	require.EqualValues(t, 1, b.eval(`document.querySelectorAll("img, script, svg[onload]").length`), "the page's own script")
	require.Empty(t, b.complaints())

	// Even code of the page could not turn text into HTML, nor load anything from elsewhere.
	require.Equal(t, "TypeError", b.eval(`(() => { try { document.body.innerHTML = "<b>x</b>"; return "done" } catch (e) { return e.name } })()`))
	require.Equal(t, "refused", b.eval(`fetch("http://127.0.0.1:9/").then(() => "done", () => "refused")`))
	require.Contains(t, b.complaints(), "Content Security Policy")
}

// TestRecorder: the page shows what the flight recorder holds.
func TestRecorder(t *testing.T) {
	needsBrowser(t)
	s := newShop(t)
	s.recorder.Start()
	require.Eventually(t, func() bool {
		n, err := s.recorder.WriteJSON(io.Discard)
		return err == nil && n > 0
	}, testenv.Patience, time.Millisecond)
	b := open(t, 1000, 800)
	b.load(s.url)
	b.wait(`!document.querySelector("#open-recorder").hidden`)
	b.click("#open-recorder") // reads once
	b.wait(`document.querySelectorAll("#recorded tr").length > 0`)
	b.wait(`(document.querySelector("#read").click(), document.querySelectorAll("#recorded tr").length > 40)`)
	b.write("#contains", "query__done")
	b.wait(`[...document.querySelectorAll("#recorded tr")].every(r => r.cells[1].textContent === "shop:query__done")`)
	require.Regexp(t, `text=SELECT name FROM item WHERE id = \?  rows=\d+  elapsed=[\d.]+ (µs|ms)`, b.text("#recorded tr td.args"))
	require.NotContains(t, b.text("#welcome"), "Until you start watching", "the recorder watches already")

	require.Equal(t, "Download for stapsdt", b.text("#recordings"))
	require.Regexp(t, fmt.Sprintf(`^browser.*-%d-1\.rec$`, os.Getpid()), b.eval(`document.querySelector("#recordings a").download`))
	require.Equal(t, "stapsdt\x1a", b.eval(`fetch(document.querySelector("#recordings a").href).then(r => r.text()).then(text => text.slice(0, 8))`))

	narrow := open(t, 400, 800)
	narrow.load(s.url)
	narrow.wait(`!document.querySelector("#open-recorder").hidden`)
	narrow.click("#open-recorder")
	narrow.wait(`document.querySelectorAll("#recorded tr").length > 0`)
	narrow.wait(`[...document.querySelectorAll("#recorded td.args")].every(c => c.getBoundingClientRect().width > 250)`)
	require.Empty(t, b.complaints())
}

// TestOperations: the flight recorder shows which operations are open, and what the slowest consisted of.
func TestOperations(t *testing.T) {
	needsBrowser(t)
	type path struct{ Path string }
	p := stapsdt.NewProvider("operated", stapsdt.WithDir(t.TempDir()))
	t.Cleanup(func() { p.Close() }) // the page of another test would show it
	request, query := span.NewOperation[path, struct{}](p, "request"), span.NewOperation[struct{}, struct{}](p, "query")
	recorder := proberec.New(1<<20, p)
	recorder.Start()
	t.Cleanup(recorder.Stop)
	server := httptest.NewServer(debugprobe.Handler(recorder))
	t.Cleanup(server.Close)
	serve := func(name string, wait time.Duration, err error) {
		ctx, r := request.Start(t.Context(), path{name})
		_, q := query.Start(ctx, struct{}{})
		time.Sleep(wait)
		q.End(struct{}{}, err)
		r.End(struct{}{}, nil)
	}
	serve("/quick", 0, nil)
	serve("/<b>\u202e\x1b", 30*time.Millisecond, errors.New("broken"))
	_, hangs := request.Start(t.Context(), path{"/hangs"})
	defer hangs.End(struct{}{}, nil)

	b := open(t, 1000, 800)
	b.load(server.URL)
	b.wait(`!document.querySelector("#open-recorder").hidden`) // the script has begun
	b.click("#open-recorder")
	b.wait(`document.querySelector("#operations").checkVisibility()`)
	require.Regexp(t, `^ *>\S+ \S+  operated:request path=/hangs  not ended yet$`, b.text("#open-now"))
	lines := strings.Split(b.text("#slowest"), "\n")
	require.Len(t, lines, 4)
	require.Regexp(t, `^ *\d+\S* ms  operated:request path=/<b>\\u202e␛$`, lines[0], "the slowest is the first")
	require.Regexp(t, `^ *\d+\S* ms    operated:query   failed: broken$`, lines[1])
	require.Regexp(t, `^ *\S+ (?:µs|ms|ns)  operated:request path=/quick$`, lines[2])

	for range 500 {
		serve("/later", 0, nil)
	}
	b.click("#read")
	b.wait(`document.querySelectorAll("#recorded tr").length === 500`)
	require.Equal(t, "Of the last 2,009 events.", b.text("#operations-of"))
	require.Contains(t, b.text("#read-count"), "2,009 events, newest first, of which 500 are shown")
	require.Regexp(t, `path=/hangs  not ended yet$`, b.text("#open-now"), "older than what is shown")
	require.Contains(t, b.text("#slowest"), "failed: broken")
	require.Empty(t, b.complaints())
}
