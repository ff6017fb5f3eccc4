package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// The picture docs/timeline.png is made of a timeline of examples/http:
//
//	go test ./browser -run TestTimelinePicture -timeline FILE -screenshot $PWD/../../docs/timeline.png
//
// and then cut to the tracks, and reduced to a palette of 256 colors.
var timeline = flag.String("timeline", "", "draw this `file` for TestTimelinePicture")

// draw draws a file in the Performance panel of Chromium's developer tools, which are part of it. Debian's Chromium
// is built without chrome://tracing.
func draw(t *testing.T, file string) *tab {
	t.Helper()
	b := open(t, 1200, 760, "--remote-debugging-port=0", "--remote-allow-origins=*")
	var port []byte
	require.Eventually(t, func() (ok bool) {
		var err error
		port, err = os.ReadFile(filepath.Join(b.data, "DevToolsActivePort"))
		return err == nil
	}, testenv.Patience, 50*time.Millisecond)
	number, _, _ := strings.Cut(string(port), "\n")
	b.load("http://127.0.0.1:" + number + "/devtools/devtools_app.html?panel=timeline")
	data := tracetest.Must(os.ReadFile(file))(t)
	b.eval(`(async () => {
		const module = await import("/devtools/panels/timeline/timeline.js");
		while (!window.panel) {
			try {
				window.panel = module.TimelinePanel.TimelinePanel.instance();
			} catch { // the tools are not there yet
				await new Promise(resolve => setTimeout(resolve, 50));
			}
		}
		await panel.loadFromFile(new File([` + quote(string(data)) + `], "timeline.json", {type: "application/json"}));
	})()`)
	b.wait(`panel.getFlameChart?.()?.getMainDataProvider?.().timelineData()?.entryStartTimes?.length > 0`)
	return b
}

// entry is a bar of the drawing.
type entry struct {
	title       string
	start, took float64 // milliseconds
	level       int
	group       string
}

// entries returns the bars of a drawing.
func (b *tab) entries() (all []entry) {
	b.t.Helper()
	list := b.eval(`(() => {
		const provider = panel.getFlameChart().getMainDataProvider(), data = provider.timelineData();
		return Array.from(data.entryStartTimes, (start, i) => {
			const level = data.entryLevels[i];
			const group = data.groups.findLast(g => g.startLevel <= level);
			return [provider.entryTitle(i), start, data.entryTotalTimes[i], level, group ? group.name : ""];
		});
	})()`).([]any)
	for _, one := range list {
		fields := one.([]any)
		number := func(i int) float64 {
			f, _ := fields[i].(float64) // null for NaN
			return f
		}
		all = append(all, entry{fmt.Sprint(fields[0]), number(1), number(2), int(number(3)), fmt.Sprint(fields[4])})
	}
	return all
}

// timelineFile lets a program of operations act, and returns the file with its timeline.
func timelineFile(t *testing.T) string {
	t.Helper()
	type path struct{ Path string }
	type none struct{}
	p := stapsdt.NewProvider("drawn")
	request, query := span.NewOperation[path, none](p, "request"), span.NewOperation[none, none](p, "query")
	note := stapsdt.NewProbe1[string](p, "note", "text")
	file := filepath.Join(t.TempDir(), "drawn.rec")
	rec := tracetest.Must(proberec.Create(file, 1<<20, p))(t)
	rec.Start()
	const step = 5 * time.Millisecond
	ctx, outer := request.Start(context.Background(), path{"/\"<b>\x1b[2J\xff"})
	time.Sleep(step)
	_, inner := query.Start(ctx, none{})
	time.Sleep(step)
	inner.End(none{}, errors.New("broken"))
	note.Fire("between")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, elsewhere := query.Start(ctx, none{})
		time.Sleep(step)
		elsewhere.End(none{}, nil)
	}()
	<-done
	// One that begins within the request and ends after it.
	_, overlap := query.Start(ctx, none{})
	time.Sleep(step)
	outer.End(none{}, nil)
	time.Sleep(step)
	overlap.End(none{}, nil)
	_, _ = request.Start(context.Background(), path{"/open"})
	note.Fire("last")
	require.NoError(t, errors.Join(rec.Close(), p.Close()))
	drawn := file + ".json"
	out, err := exec.Command(tracetest.Stapsdt(t), "trace", "--from", file, "-o", "chrome", "-O", drawn).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return drawn
}

// TestTimeline: Chromium draws the spans in the tracks of their goroutines, nested, and the events.
func TestTimeline(t *testing.T) {
	needsBrowser(t)
	d := draw(t, timelineFile(t))
	byTitle := map[string][]entry{}
	for _, e := range d.entries() {
		byTitle[e.title] = append(byTitle[e.title], e)
	}
	t.Log(byTitle)
	requests, queries := byTitle["drawn:request"], byTitle["drawn:query"]
	require.Len(t, requests, 2)
	require.Len(t, queries, 3)
	inner, elsewhere, overlap := queries[0], queries[1], queries[2]
	request := requests[0]
	require.Equal(t, request.group, inner.group, "the same goroutine")
	require.Greater(t, inner.level, request.level, "it is drawn below the request that it is in")
	require.Contains(t, request.group, "goroutine ")
	require.NotEqual(t, request.group, elsewhere.group, "another goroutine")
	require.NotEqual(t, request.group, overlap.group, "it does not end within the request")
	require.Contains(t, overlap.group, " (2) (")
	for _, q := range queries {
		require.GreaterOrEqual(t, q.took, 5.)
		testenv.Figure(t, "a query of 5 ms", q.took, 500, "ms")
		require.Greater(t, q.start, request.start)
	}
	require.GreaterOrEqual(t, request.took, 20.)
}

// TestTimelinePicture makes the picture of the guide.
func TestTimelinePicture(t *testing.T) {
	if *timeline == "" || *screenshot == "" {
		t.Skip("it makes a picture, with -timeline and -screenshot")
	}
	d := draw(t, *timeline)
	d.wait(`panel.getFlameChart().getMainFlameChart`)
	d.eval(`(() => {
		const chart = panel.getFlameChart().getMainFlameChart();
		chart.rawTimelineData.groups.forEach((group, i) => { if (!group.expanded) chart.toggleGroupExpand(i); });
		document.querySelectorAll("devtools-shortcut-dialog, dialog").forEach(e => e.remove());
	})()`)
	for _, kind := range []string{"mousePressed", "mouseReleased"} { // hides what is beside the timeline
		d.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": 16, "y": 40, "button": "left", "clickCount": 1}, nil)
	}
	time.Sleep(2 * time.Second)
	d.screenshot(*screenshot)
}
