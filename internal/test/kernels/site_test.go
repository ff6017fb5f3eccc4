//go:build linux && (amd64 || arm64)

package kernels

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/region"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// built is an image with one site, of a kind that may not be the chosen one. The
// public API offers no choice.
type built struct {
	path   string
	offset uint64
	at     unsafe.Pointer // of the site
	size   int            // of the site, including its return
}

// buildSite maps a site of a kind until the test ends.
func buildSite(t *testing.T, kind *image.Nop) *built {
	tracetest.NeedUprobes(t)
	im, err := image.Build(image.Host(), kind, image.Spec{Provider: "kinds", Probes: []image.Probe{{Name: kind.Name, Args: []int8{8}}}}, nil)
	require.NoError(t, err)
	var space region.Space
	home, sites, err := region.Load(&space, im, region.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() {
		home.Close()
		space.Free()
	})
	notes, err := sdt.ReadFile(home.Path())
	require.NoError(t, err)
	return &built{
		path:   home.Path(),
		offset: notes[0].Offset,
		// SAFETY: the address of the site, mapped until the cleanup above runs.
		at:   unsafe.Pointer(sites.At(0)),
		size: len(kind.Code) + len(image.Host().Ret),
	}
}

// count attaches a counter to the site.
func (b *built) count(t *testing.T) (*tracetest.Counter, error) {
	c, err := tracetest.CountUprobe(b.path, b.offset)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// fire enters the site if it is patched, as Probe.Fire does, and reports whether
// it was.
func (b *built) fire() bool { return call.WithRegisters(&b.at, &[call.MaxRegs]uint64{42}) }

// enabled reports whether the site is patched, as Probe.Enabled does.
//
// SAFETY: the site is mapped until the test ends.
func (b *built) enabled() bool { return *(*byte)(b.at)&call.Mask == call.Bits }

// bytes returns the site's instructions.
func (b *built) bytes() string {
	// SAFETY: the site is that long, and mapped until the test ends.
	return fmt.Sprintf("% x", unsafe.Slice((*byte)(b.at), b.size))
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
	p, event := oneEvent(t, inFile)
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
	costs := measureSites(t)
	require.NotZero(t, costs.chosen, "a tracer cannot attach to the chosen site")
	t.Attr("cost", costs.ratios)
	testenv.Figure(t, "the chosen site", float64(costs.chosen)/float64(costs.least), 1.25, "of the cheapest")
}

// siteCosts is what a thousand traced fires take, in the median, and each nop's cost
// beside the first one's.
type siteCosts struct {
	least, chosen time.Duration
	ratios        string
}

func measureSites(t *testing.T) (costs siteCosts) {
	const rounds, fires = 9, 1000
	kinds := image.Host().Nops
	times := make([][]time.Duration, len(kinds))
	sites := make([]*built, len(kinds))
	for i := range kinds {
		b := buildSite(t, &kinds[i])
		if _, err := b.count(t); err == nil {
			sites[i] = b
		}
	}
	// Each round times all kinds at about the same moment, so that they share
	// what else the machine does then.
	for range rounds {
		for i, b := range sites {
			if b == nil {
				continue
			}
			start := time.Now()
			for range fires {
				if !b.fire() {
					t.Fatalf("%s: the attached site was not entered", kinds[i].Name)
				}
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	var ratios []string
	for i, b := range sites {
		if b == nil {
			continue
		}
		slices.Sort(times[i])
		median := times[i][rounds/2]
		if costs.least == 0 || median < costs.least {
			costs.least = median
		}
		if kinds[i].Name == site.Chosen().Name {
			costs.chosen = median
		}
		ratios = append(ratios, fmt.Sprintf("%s %.2f", kinds[i].Name, float64(median)/float64(times[0][rounds/2])))
	}
	costs.ratios = strings.Join(ratios, "; ")
	return costs
}

// TestSiteBytes: a tracer can attach to the chosen kind and to every other, except to one that a kernel may split, on a
// kernel that does not do so. Whatever the kernel writes over a site, it reads as enabled while a tracer is attached, and
// at no other time.
func TestSiteBytes(t *testing.T) {
	for _, kind := range image.Host().Nops {
		b := buildSite(t, &kind)
		var seen []string
		look := func(state string, enabled bool) {
			seen = append(seen, state+" ["+b.bytes()+"]")
			require.Equal(t, enabled, b.enabled(), "%s: %v", kind.Name, seen)
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
			require.True(t, b.fire())
		}
		look("fired", true)
		second, err := b.count(t)
		require.NoError(t, err)
		look("attached twice", true)
		require.NoError(t, first.Close())
		require.True(t, b.fire())
		look("one left", true)
		require.NoError(t, second.Close())
		look("detached", false)
		require.False(t, b.fire())
		third, err := b.count(t)
		require.NoError(t, err)
		look("reattached", true)
		require.True(t, b.fire())
		require.True(t, b.fire())
		requireCount(t, third, 2)
		look("fired again", true)
		require.NoError(t, third.Close())
		look("detached again", false)
		t.Logf("%s: %s", kind.Name, strings.Join(seen, ", "))
	}
}
