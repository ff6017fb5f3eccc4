//go:build linux && (amd64 || arm64)

package kernels

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// built is a loaded probe whose site is of a kind that may not be the chosen one.
type built struct {
	*stapsdt.Probe1[uint64]
	kind *image.Nop
	note sdt.Site
}

// buildSite loads a probe with a site of a kind.
func buildSite(t *testing.T, kind *image.Nop) *built {
	tracetest.NeedUprobes(t)
	t.Setenv("STAPSDT_SITE", kind.Name)
	p := newProvider(t, "kinds")
	probe := stapsdt.NewProbe1[uint64](p, kind.Name)
	require.NoError(t, p.Load())
	return &built{probe, kind, noteOf(t, &probe.Probe)}
}

// count attaches a counter to the site.
func (b *built) count(t *testing.T) (*tracetest.Counter, error) {
	c, err := tracetest.CountUprobe(b.Provider().Path(), b.note.Offset)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// bytes returns the site's instructions, including its return.
func (b *built) bytes(t *testing.T) string {
	code := make([]byte, len(b.kind.Code)+len(image.Host().Ret))
	require.NoError(t, tracetest.ReadMapped(os.Getpid(), b.Provider().Path(), b.note.Offset, code))
	return fmt.Sprintf("% x", code)
}

// expectedSites returns the kinds that may be chosen on a kernel of this release.
// The rule was found by trying, and does not repeat package site.
func expectedSites(arch, release string) []string {
	if arch == "arm64" {
		return []string{"nop4"}
	}
	var v [3]int
	fmt.Sscanf(release, "%d.%d.%d", &v[0], &v[1], &v[2])
	switch {
	case slices.Compare(v[:], []int{6, 18}) < 0:
		return []string{"nop1"}
	case slices.Compare(v[:], []int{7, 2}) < 0:
		return []string{"nop5"}
	case slices.Compare(v[:], []int{7, 2, 13}) < 0:
		return []string{"nop5", "nop10"} // not tried
	}
	return []string{"nop10"}
}

// The chosen kind is the expected one, and a provider's image has it where the note
// says that the site is.
func TestSiteChosen(t *testing.T) {
	tracetest.NeedUprobes(t)
	t.Attr("kernel", release())
	t.Attr("site", site.Chosen().Name)
	require.Contains(t, expectedSites(runtime.GOARCH, release()), site.Chosen().Name)
	p := newProvider(t, "kernel")
	event := loadEvent(t, p)
	file, err := os.ReadFile(p.Path())
	require.NoError(t, err)
	offset := noteOf(t, event).Offset
	nop, err := site.ForProcess() // the chosen one, except with cgo and the tag stapsdt_nocgo
	require.NoError(t, err)
	want := []byte(nop.Code + image.Host().Ret)
	require.Equal(t, want, file[offset:][:len(want)])
}

// TestSiteCost compares the time that a traced fire takes with each kind of site.
// In a guest only the ratios mean something.
func TestSiteCost(t *testing.T) {
	testedBy(t, "bench")
	const rounds, fires = 9, 1000
	var sites []*built
	for _, kind := range image.Host().Nops {
		b := buildSite(t, &kind)
		if _, err := b.count(t); err == nil {
			sites = append(sites, b)
		}
	}
	times := make([][]time.Duration, len(sites))
	// Each round times all kinds at about the same moment, so that they share
	// what else the machine does then.
	for range rounds {
		for i, b := range sites {
			start := time.Now()
			for range fires {
				b.Fire(42)
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	var ratios []string
	medians := map[string]float64{}
	for i, b := range sites {
		slices.Sort(times[i])
		medians[b.kind.Name] = float64(times[i][rounds/2])
		ratios = append(ratios, fmt.Sprintf("%s %.2f", b.kind.Name, medians[b.kind.Name]/medians[sites[0].kind.Name]))
	}
	require.Contains(t, medians, site.Chosen().Name, "a tracer cannot attach to the chosen site")
	t.Attr("cost", strings.Join(ratios, "; "))
	least := slices.Min(slices.Collect(maps.Values(medians)))
	testenv.Figure(t, "the chosen site", medians[site.Chosen().Name]/least, 1.25, "of the cheapest")
}

// TestSiteBytes: a tracer can attach to the chosen kind and to every other, except to one that a kernel may split, on a
// kernel that does not do so. Whatever the kernel writes over a site, it reads as enabled while a tracer is attached, and
// at no other time.
func TestSiteBytes(t *testing.T) {
	for _, kind := range image.Host().Nops {
		b := buildSite(t, &kind)
		var seen []string
		look := func(state string, enabled bool) {
			seen = append(seen, state+" ["+b.bytes(t)+"]")
			require.Equal(t, enabled, b.Enabled(), "%s: %v", kind.Name, seen)
		}
		look("idle", false)
		first, err := b.count(t)
		if kind.Split && !site.Chosen().Split {
			require.Truef(t, errors.Is(err, unix.EOPNOTSUPP) || err != nil && strings.Contains(err.Error(), "errno 524"),
				"%s: not refused, or not as expected: %v", kind.Name, err)
			look("refused", false)
			continue
		}
		require.NoError(t, err, kind.Name)
		look("attached", true)
		for range 3 {
			b.Fire(42)
		}
		requireCount(t, first, 3)
		look("fired", true)
		second := tracetest.Must(b.count(t))(t)
		look("attached twice", true)
		require.NoError(t, first.Close())
		b.Fire(42)
		requireCount(t, second, 1)
		look("one left", true)
		require.NoError(t, second.Close())
		look("detached", false)
		b.Fire(42)
		third := tracetest.Must(b.count(t))(t)
		look("reattached", true)
		b.Fire(42)
		b.Fire(42)
		requireCount(t, third, 2)
		look("fired again", true)
		require.NoError(t, third.Close())
		look("detached again", false)
		t.Logf("%s: %s", kind.Name, strings.Join(seen, ", "))
	}
}

// The states of a site that is watched. While it changes it may read as either.
const (
	changing = iota
	attached
	detached
)

// watcher asks all the time whether a site is enabled, in a goroutine of its own.
type watcher struct {
	state atomic.Int32
	over  atomic.Bool
	reads atomic.Int64
	wg    sync.WaitGroup

	// For the test to read after stop.
	wrong int
	seen  map[bool]bool
}

func watch(t *testing.T, b *built) *watcher {
	w := &watcher{seen: map[bool]bool{}}
	w.wg.Go(func() {
		for !w.over.Load() {
			state := w.state.Load()
			enabled := b.Enabled()
			w.seen[enabled] = true
			// Otherwise the state changed meanwhile.
			if w.state.Load() == state && (state == attached && !enabled || state == detached && enabled) {
				w.wrong++
			}
			if w.reads.Add(1)%64 == 0 {
				runtime.Gosched() // there may be one processor
			}
		}
	})
	t.Cleanup(w.stop)
	return w
}

// enter tells the watcher which state the site is in, and returns when it has read
// the site in that state. On a single processor it would hardly ever do so by
// chance.
func (w *watcher) enter(state int32) {
	w.state.Store(state)
	for n := w.reads.Load(); w.reads.Load() < n+2; {
		runtime.Gosched()
	}
}

func (w *watcher) stop() {
	w.over.Store(true)
	w.wg.Wait()
}

// TestSiteChanges watches a site while a tracer attaches, the kernel optimizes what
// it wrote there, and the tracer detaches. At no moment may an attached site read
// as idle, or a detached one as patched.
func TestSiteChanges(t *testing.T) {
	const changes, fires = 10, 20
	for _, kind := range image.Host().Nops {
		b := buildSite(t, &kind)
		if c, err := b.count(t); err != nil {
			continue // TestSiteBytes says whether that is right
		} else {
			require.NoError(t, c.Close())
		}
		w := watch(t, b)
		for range changes {
			c := tracetest.Must(b.count(t))(t)
			w.enter(attached)
			for range fires {
				b.Fire(42)
			}
			w.enter(attached) // the fires may have had the kernel optimize the site
			requireCount(t, c, fires)
			w.state.Store(changing)
			require.NoError(t, c.Close())
			w.enter(detached)
			w.state.Store(changing)
		}
		w.stop()
		require.Zero(t, w.wrong, "of %d reads of %s", w.reads.Load(), kind.Name)
		require.Len(t, w.seen, 2, "%s was not seen to change", kind.Name)
	}
}
