//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/region"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/tracetest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// built is an image of one site, of a kind that may not be the chosen one: what
// the public API has no say in.
type built struct {
	path   string
	offset uint64
	at     unsafe.Pointer // of the site
	size   int            // of the site, its return included
}

// buildSite maps a site of a kind, until the check ends.
func buildSite(t *T, kind *image.Site) *built {
	im, err := image.Build(image.Host(), kind, "kinds", []image.Probe{{Name: kind.Name, Args: []int8{8}}})
	require.NoError(t, err)
	var space region.Space
	home, sites, err := region.Load(&space, &region.Image{
		Bytes:    im.Bytes,
		ID:       im.BuildID(),
		Provider: "kinds",
		Site:     kind.Name,
		Text:     im.Text,
		TextSize: image.SlotSize,
	}, region.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() {
		home.Close()
		space.Free()
	})
	notes, err := tracetest.Notes(home.Path)
	require.NoError(t, err)
	return &built{
		path:   home.Path,
		offset: notes[0].Offset,
		at:     unsafe.Pointer(sites.At(0)),
		size:   len(kind.Nop) + len(image.Host().Ret),
	}
}

// count attaches a counter to the site.
func (b *built) count(t *T) (*tracetest.Counter, error) {
	c, err := tracetest.CountUprobe(b.path, b.offset)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// fire enters the site if it is patched, and reports whether it was, as
// Probe.Fire does.
func (b *built) fire() bool { return call.Few(&b.at, &[call.MaxRegs]uint64{42}) }

// enabled reports whether the site is patched, as Probe.Enabled does.
func (b *built) enabled() bool { return *(*byte)(b.at)&call.Mask == call.Bits }

// bytes returns the site's instructions.
func (b *built) bytes() string {
	// SAFETY: the site is mapped until the check ends, and that long.
	return fmt.Sprintf("% x", unsafe.Slice((*byte)(b.at), b.size))
}

// expectedSites returns the kinds that this kernel may choose, by its release:
// the rule as it was found by trying, and not as package site puts it.
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
		return []string{"nop5", "nop10"} // untested
	}
	return []string{"nop10"}
}

// chosenSite: the kind that the kernel is asked for is the expected one, and it
// is what stands in a provider's image where the note says that the site is.
func chosenSite(t *T) {
	require.Contains(t, expectedSites(runtime.GOARCH, release()), site.Chosen())
	p, event := oneEvent(t, inFile)
	file, err := os.ReadFile(p.Path())
	require.NoError(t, err)
	nop := image.Host().SiteByName(site.Chosen()).Nop
	offset := noteOf(t, event).Offset
	want := slices.Concat([]byte(nop), []byte(image.Host().Ret))
	require.Equal(t, want, file[offset:][:len(want)])
	t.Notef("%s", site.Chosen())
}

// attachableSites: a tracer can attach to the chosen kind and to every other,
// except the ten-byte nop on a kernel that does not optimise it.
func attachableSites(t *T) {
	for _, kind := range image.Host().Sites {
		b := buildSite(t, &kind)
		c, err := b.count(t)
		if kind.Name == "nop10" && site.Chosen() != "nop10" {
			require.Truef(t, errors.Is(err, unix.EOPNOTSUPP) || err != nil && strings.Contains(err.Error(), "errno 524"),
				"%s: not refused, or not as expected: %v", kind.Name, err)
			require.False(t, b.enabled(), kind.Name)
			t.Notef("%s refused", kind.Name)
			continue
		}
		require.NoError(t, err, kind.Name)
		require.True(t, b.fire(), kind.Name)
		requireCount(t, c, 1)
		t.Notef("%s", kind.Name)
	}
}

// siteCost compares what a traced fire takes with each kind of site. Only the
// ratios mean something in a guest.
func siteCost(t *T) {
	const rounds, fires = 9, 1000
	kinds := image.Host().Sites
	times := make([][]time.Duration, len(kinds))
	sites := make([]*built, len(kinds))
	for i := range kinds {
		b := buildSite(t, &kinds[i])
		if _, err := b.count(t); err == nil {
			sites[i] = b
		}
	}
	// A round of all kinds is one of the same moment: what else the machine
	// does then, they share.
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
	var least, chosen time.Duration
	for i, b := range sites {
		if b == nil {
			continue
		}
		slices.Sort(times[i])
		median := times[i][rounds/2]
		if least == 0 || median < least {
			least = median
		}
		if kinds[i].Name == site.Chosen() {
			chosen = median
		}
		t.Notef("%s %.2f", kinds[i].Name, float64(median)/float64(times[0][rounds/2]))
	}
	require.NotZero(t, chosen, "the chosen site does not attach")
	require.LessOrEqual(t, float64(chosen), 1.25*float64(least), "%s is not the cheapest: %v", site.Chosen(), t.notes)
}

// siteBytes follows what the kernel writes over a site: while a tracer is
// attached it must read as enabled, and at no other time.
func siteBytes(t *T) {
	for _, kind := range image.Host().Sites {
		b := buildSite(t, &kind)
		var seen []string
		look := func(state string, enabled bool) {
			seen = append(seen, state+" ["+b.bytes()+"]")
			require.Equal(t, enabled, b.enabled(), "%s: %v", kind.Name, seen)
		}
		attach := func() (*tracetest.Counter, error) { return b.count(t) }
		detach := func(c *tracetest.Counter) { require.NoError(t, c.Close()) }

		look("idle", false)
		first, err := attach()
		if err != nil {
			continue // attachableSites says whether that is right
		}
		look("attached", true)
		for range 3 {
			require.True(t, b.fire())
		}
		look("fired", true)
		second, err := attach()
		require.NoError(t, err)
		look("attached twice", true)
		detach(first)
		require.True(t, b.fire())
		look("one left", true)
		detach(second)
		look("detached", false)
		require.False(t, b.fire())
		third, err := attach()
		require.NoError(t, err)
		look("reattached", true)
		require.True(t, b.fire())
		require.True(t, b.fire())
		requireCount(t, third, 2)
		look("fired again", true)
		detach(third)
		look("detached again", false)
		t.Notef("%s: %s", kind.Name, strings.Join(seen, ", "))
	}
}
