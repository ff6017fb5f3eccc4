//go:build linux && (amd64 || arm64)

package docs_test

import (
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// guideText returns the text of a guide, with its lines joined where they are wrapped.
func guideText(t *testing.T, name string) string {
	t.Helper()
	return strings.Join(strings.Fields(readFile(t, root+"docs/"+name)), " ")
}

// TestErrorsInTheGuides: the errors that the guides quote are those that the package returns.
func TestErrorsInTheGuides(t *testing.T) {
	shows, libraries := guideText(t, "nothing-shows.md"), guideText(t, "libraries.md")

	hello := stapsdt.NewProvider("hello")
	greeting, err := hello.AddProbe("greeting", stapsdt.String, stapsdt.Uint64)
	require.NoError(t, err)
	stop := hello.Observe(func(*stapsdt.Event) {})
	defer stop()
	require.Contains(t, shows, greeting.Fire("hello", -1).Error())

	require.Contains(t, shows, stapsdt.NewProvider("a:b").Load().Error())

	colon := stapsdt.NewProvider("hello", stapsdt.WithDir("/tmp/a:b"))
	require.Contains(t, shows, strings.Replace(colon.Load().Error(), "WithDir:", "$STAPSDT_DIR:", 1))

	first, second := stapsdt.NewProvider("cache"), stapsdt.NewProvider("cache")
	stapsdt.NewProbe2[string, int64](first, "entry__evicted")
	stapsdt.NewProbe1[uint64](second, "entry__evicted")
	require.NoError(t, first.Load())
	defer first.Close()
	before, _, found := strings.Cut(second.Load().Error(), " defined at ")
	require.True(t, found)
	require.Contains(t, libraries, before+" defined at /")
}

// TestHeapOfADefinition: a definition takes no more of the heap than cost.md says.
func TestHeapOfADefinition(t *testing.T) {
	testenv.Measures(t, "memory")
	said := regexp.MustCompile(`A probe's definition takes (\d+) bytes of heap, measured with 10,000 probes of two arguments`).
		FindStringSubmatch(guideText(t, "cost.md"))
	require.NotNil(t, said)
	figure, err := strconv.ParseFloat(said[1], 64)
	require.NoError(t, err)

	const count = 10000
	names := make([]string, count)
	for i := range names {
		names[i] = "probe" + strconv.Itoa(i)
	}
	kept := make([]*stapsdt.Probe2[string, int32], count)
	p := stapsdt.NewProvider("heap")
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for i, name := range names {
		kept[i] = stapsdt.NewProbe2[string, int32](p, name)
	}
	takes := float64(heap()-before) / count
	runtime.KeepAlive(kept)
	runtime.KeepAlive(p)
	testenv.Figure(t, "heap of a definition", takes, figure, "B")
}
