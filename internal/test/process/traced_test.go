//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/test/values"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	tracetest.Main(m, map[string]func(args []string){
		"probes":   probesChild,
		"loadonce": loadOnceChild,
		"fault":    faultChild,
		"limit":    limitChild,
		"vanish":   vanishChild,
		"killed":   killedChild,
		"attacker": attackerChild,
		"victim":   victimChild,
		"dump":     dumpChild,
		"profile":  profileChild,
		"place":    placeChild,
	})
}

// tracedProbe is a probe that the kernel alone was attached to, with what an
// independent parser reads in its note.
type tracedProbe struct {
	*stapsdt.Probe
	uprobe *tracetest.Uprobe
	note   sdt.Site
}

// trace attaches to probes of one provider, for what the test's own thread fires,
// and detaches when the test ends. (To detach an event takes the kernel tens of
// milliseconds, and for every thread it needs one for each processor.)
func trace(t testing.TB, probes ...*stapsdt.Probe) []tracedProbe {
	t.Helper()
	tracetest.NeedUprobes(t)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	thread := unix.Gettid()
	p := probes[0].Provider()
	notes, err := sdt.ReadFile(p.Path())
	require.NoError(t, err)
	require.Len(t, notes, len(p.Probes()))
	list := make([]tracedProbe, len(probes))
	t.Cleanup(func() { detach(list) })
	for i, probe := range probes {
		note := notes[slices.Index(p.Probes(), probe)]
		u, err := tracetest.AttachUprobe(p.Path(), note.Offset, thread)
		require.NoError(t, err)
		list[i] = tracedProbe{probe, u, note}
	}
	for _, p := range list {
		require.Equal(t, p.Name(), p.note.Name)
		require.Equal(t, p.Provider().Name(), p.note.Provider)
		require.Len(t, p.note.Args, len(p.ArgTypes()))
	}
	return list
}

func detach(list []tracedProbe) {
	for _, p := range list {
		if p.uprobe != nil {
			p.uprobe.Close()
		}
	}
}

// read returns the next sample of a fire, which must have come from here.
func (p tracedProbe) read(t testing.TB) tracetest.Sample {
	t.Helper()
	s, err := p.uprobe.Read(testenv.Patience)
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), s.PID)
	return s
}

// placements are the two places that an image can be in.
func placements() map[string][]stapsdt.Option {
	return map[string][]stapsdt.Option{"file": nil, "memfd": {stapsdt.WithMemfd()}}
}

// forEachSite runs a test with each kind of site that tracers can attach to
// here, in each placement.
func forEachSite(t *testing.T, test func(t *testing.T, opts ...stapsdt.Option)) {
	kinds := []*image.Nop{site.Chosen()}
	if runtime.GOARCH == "amd64" {
		kinds = []*image.Nop{image.Host().NopByName("nop1"), image.Host().NopByName("nop5")}
		if !slices.Contains(kinds, site.Chosen()) {
			kinds = append(kinds, site.Chosen())
		}
	}
	for _, kind := range kinds {
		for place, opts := range placements() {
			t.Run(kind.Name+"/"+place, func(t *testing.T) {
				if place == "memfd" {
					testenv.Long(t, "the image is that of the file")
				}
				t.Setenv("STAPSDT_SITE", kind.Name)
				test(t, opts...)
			})
		}
	}
}

// TestArgumentsAsTheKernelSeesThem fires every number of arguments, and every
// type in every place, with each of its extremes, and reads the registers and
// the stack at the site.
func TestArgumentsAsTheKernelSeesThem(t *testing.T) {
	types := []stapsdt.ArgType{stapsdt.Uint8, stapsdt.Int8, stapsdt.Uint16, stapsdt.Int16, stapsdt.Uint32, stapsdt.Int32, stapsdt.Uint64, stapsdt.Int64}
	forEachSite(t, func(t *testing.T, opts ...stapsdt.Option) {
		p := newProvider(t, "truth", opts...)
		var probes []*stapsdt.Probe
		for n := range stapsdt.MaxArgs + 1 {
			shifts := 1
			if n == stapsdt.MaxArgs {
				shifts = len(types)
			}
			for shift := range shifts {
				args := make([]stapsdt.ArgType, n)
				for i := range args {
					args[i] = types[(i+shift)%len(types)]
				}
				probe, err := p.AddProbe(fmt.Sprintf("n%d_%d", n, shift), args...)
				require.NoError(t, err)
				probes = append(probes, probe)
			}
		}
		load(t, p)
		list := trace(t, probes...)
		for _, p := range list {
			require.True(t, p.Enabled())
			for round := range 10 {
				args := make([]any, len(p.ArgTypes()))
				for i, typ := range p.ArgTypes() {
					args[i] = values.Extremes[typ][(round+i)%len(values.Extremes[typ])]
				}
				require.NoError(t, p.Fire(args...))
				s := p.read(t)
				for i := range args {
					require.Equal(t, values.Word(args[i]), p.arg(t, s, i), "%s argument %d of %v", p.Name(), i, args)
				}
			}
		}
		detach(list)
		for _, p := range list {
			require.False(t, p.Enabled())
		}
	})
}

func TestStringsAsTheKernelSeesThem(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 625) // 10,000 bytes
	p := newProvider(t, "strings")
	probe, err := p.AddProbe("say", stapsdt.String, stapsdt.Int32, stapsdt.String)
	require.NoError(t, err)
	load(t, p)
	traced := trace(t, probe)[0]
	for _, s := range []string{"", "a", long[:255], long[:4094], long[:4095], long[:4096], long, "nul\x00inside", "grüße, 世界", "\xff\xfe"} {
		for _, arg := range []any{s, []byte(s), path(s), blob(s)} {
			require.NoError(t, probe.Fire(arg, -7, "second"))
			sample := traced.read(t)
			want := s[:min(len(s), stapsdt.MaxString-1)] + "\x00"
			require.Equal(t, want, textAt(traced.arg(t, sample, 0), len(want)))
			require.Equal(t, "second\x00", textAt(traced.arg(t, sample, 2), 7))
		}
	}
}

func TestBothTracePointsOfAName(t *testing.T) {
	p := newProvider(t, "points")
	a, err := p.AddProbe("event", stapsdt.Int32)
	require.NoError(t, err)
	b, err := p.AddProbe("event", stapsdt.Int32)
	require.NoError(t, err)
	load(t, p)
	traced := trace(t, b)[0]
	require.False(t, a.Enabled())
	require.True(t, b.Enabled())
	require.NoError(t, a.Fire(1))
	require.NoError(t, b.Fire(2))
	require.EqualValues(t, 2, traced.arg(t, traced.read(t), 0))
	count, err := traced.uprobe.Count()
	require.NoError(t, err)
	require.EqualValues(t, 1, count)
}

// TestGoroutinesFireWhileTraced counts, from many goroutines on growing stacks
// while the garbage collector runs.
func TestGoroutinesFireWhileTraced(t *testing.T) {
	tracetest.NeedUprobes(t)
	p := newProvider(t, "crowd")
	probe, err := p.AddProbe("event", stapsdt.Uint64, stapsdt.String, stapsdt.Uint64, stapsdt.Uint64, stapsdt.Uint64, stapsdt.Uint64, stapsdt.Uint64)
	require.NoError(t, err)
	load(t, p)
	notes, err := sdt.ReadFile(p.Path())
	require.NoError(t, err)
	counter, err := tracetest.CountUprobe(p.Path(), notes[0].Offset)
	require.NoError(t, err)
	defer counter.Close()
	const goroutines, fires = 32, 2000
	done := make(chan error)
	for g := range goroutines {
		go func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range fires {
				if err := deep(r.IntN(200), func() error {
					return probe.Fire(g, "text", i, 4, 5, 6, 7)
				}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for range goroutines {
		require.NoError(t, <-done)
	}
	close(stop)
	count, err := counter.Count()
	require.NoError(t, err)
	require.EqualValues(t, goroutines*fires, count)
}

// deep calls f at a depth of the stack, each level of which takes 100 bytes or so.
//
//go:noinline
func deep(levels int, f func() error) error {
	var frame [64]byte
	frame[levels%64] = 1
	if levels == 0 {
		return f()
	}
	err := deep(levels-1, f)
	runtime.KeepAlive(&frame)
	return err
}
