package stapsdt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// The cost of an idle probe and of a load, with names that benchstat takes apart.
// scripts/bench.sh measures what they cost next to others, and while traced.
//
// The loops count to b.N: before Go 1.26 the compiler inlines nothing in a b.Loop,
// and a Fire that is not inlined is not what programs have.

// loadForBench loads a provider in a directory of the benchmark's own. Where there
// are no probes it leaves it as it is: Fire costs the same there.
func loadForBench(b testing.TB, p *Provider) {
	b.Helper()
	err := p.Load()
	if errors.Is(err, ErrUnsupported) {
		return
	}
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, p.Close()) })
}

func BenchmarkEnabled(b *testing.B) {
	p := newProvider(b, "bench")
	probe := NewProbe0(p, "probe")
	loadForBench(b, p)
	b.ReportAllocs()
	on := 0
	for range b.N {
		if probe.Enabled() {
			on++
		}
	}
	require.Zero(b, on)
}

// idleProbes are probes of each number of arguments, of integers and of strings.
type idleProbes struct {
	zero  *Probe0
	one   *Probe1[uint64]
	two   *Probe2[uint64, int32]
	three *Probe3[uint64, int32, uint16]
	four  *Probe4[uint64, int32, uint16, bool]
	five  *Probe5[uint64, int32, uint16, bool, int64]
	six   *Probe6[uint64, int32, uint16, bool, int64, uint8]

	oneString   *Probe1[string]
	twoMixed    *Probe2[string, int32]
	threeMixed  *Probe3[string, int32, []byte]
	fourMixed   *Probe4[string, int32, []byte, bool]
	fiveMixed   *Probe5[string, int32, []byte, bool, string]
	sixMixed    *Probe6[string, int32, []byte, bool, string, uint8]
	sixOfString *Probe6[string, string, string, string, string, string]

	any *Probe
}

func newIdleProbes(tb testing.TB) *idleProbes {
	p := newProvider(tb, "bench")
	dynamic, err := p.AddProbe("any", Uint64, Int32)
	require.NoError(tb, err)
	s := &idleProbes{
		zero:  NewProbe0(p, "zero"),
		one:   NewProbe1[uint64](p, "one"),
		two:   NewProbe2[uint64, int32](p, "two"),
		three: NewProbe3[uint64, int32, uint16](p, "three"),
		four:  NewProbe4[uint64, int32, uint16, bool](p, "four"),
		five:  NewProbe5[uint64, int32, uint16, bool, int64](p, "five"),
		six:   NewProbe6[uint64, int32, uint16, bool, int64, uint8](p, "six"),

		oneString:   NewProbe1[string](p, "one_string"),
		twoMixed:    NewProbe2[string, int32](p, "two_mixed"),
		threeMixed:  NewProbe3[string, int32, []byte](p, "three_mixed"),
		fourMixed:   NewProbe4[string, int32, []byte, bool](p, "four_mixed"),
		fiveMixed:   NewProbe5[string, int32, []byte, bool, string](p, "five_mixed"),
		sixMixed:    NewProbe6[string, int32, []byte, bool, string, uint8](p, "six_mixed"),
		sixOfString: NewProbe6[string, string, string, string, string, string](p, "six_strings"),

		any: dynamic,
	}
	loadForBench(tb, p)
	return s
}

// What the benchmarks fire with: variables, so that nothing of it is a constant.
var (
	benchText  = "/index/page.html"
	benchBytes = []byte("/index/page.html")
)

// idleFire fires a typed probe n times.
type idleFire struct {
	name string
	fire func(n int)
}

func (s *idleProbes) idleFires() []idleFire { return append(s.integerFires(), s.mixedFires()...) }

func (s *idleProbes) integerFires() []idleFire {
	return []idleFire{
		{"args=0/kind=integers", func(n int) {
			for range n {
				s.zero.Fire()
			}
		}},
		{"args=1/kind=integers", func(n int) {
			for i := range n {
				s.one.Fire(uint64(i))
			}
		}},
		{"args=2/kind=integers", func(n int) {
			for i := range n {
				s.two.Fire(uint64(i), 200)
			}
		}},
		{"args=3/kind=integers", func(n int) {
			for i := range n {
				s.three.Fire(uint64(i), 200, 3)
			}
		}},
		{"args=4/kind=integers", func(n int) {
			for i := range n {
				s.four.Fire(uint64(i), 200, 3, true)
			}
		}},
		{"args=5/kind=integers", func(n int) {
			for i := range n {
				s.five.Fire(uint64(i), 200, 3, true, int64(i))
			}
		}},
		{"args=6/kind=integers", func(n int) {
			for i := range n {
				s.six.Fire(uint64(i), 200, 3, true, int64(i), 6)
			}
		}},
	}
}

func (s *idleProbes) mixedFires() []idleFire {
	text, bytes := benchText, benchBytes
	return []idleFire{
		{"args=1/kind=strings", func(n int) {
			for range n {
				s.oneString.Fire(text)
			}
		}},
		{"args=2/kind=mixed", func(n int) {
			for i := range n {
				s.twoMixed.Fire(text, int32(i))
			}
		}},
		{"args=3/kind=mixed", func(n int) {
			for i := range n {
				s.threeMixed.Fire(text, int32(i), bytes)
			}
		}},
		{"args=4/kind=mixed", func(n int) {
			for i := range n {
				s.fourMixed.Fire(text, int32(i), bytes, true)
			}
		}},
		{"args=5/kind=mixed", func(n int) {
			for i := range n {
				s.fiveMixed.Fire(text, int32(i), bytes, true, text)
			}
		}},
		{"args=6/kind=mixed", func(n int) {
			for i := range n {
				s.sixMixed.Fire(text, int32(i), bytes, true, text, 6)
			}
		}},
		{"args=6/kind=strings", func(n int) {
			for range n {
				s.sixOfString.Fire(text, text, text, text, text, text)
			}
		}},
	}
}

func BenchmarkFire(b *testing.B) {
	for _, f := range newIdleProbes(b).idleFires() {
		b.Run(f.name, func(b *testing.B) {
			b.ReportAllocs()
			f.fire(b.N)
		})
	}
}

func (s *idleProbes) fireAny(n int) error {
	for i := range n {
		if err := s.any.Fire(uint64(i), int32(200)); err != nil {
			return err
		}
	}
	return nil
}

func BenchmarkFireAny(b *testing.B) {
	s := newIdleProbes(b)
	b.ReportAllocs()
	b.ResetTimer()
	require.NoError(b, s.fireAny(b.N))
}

func (s *idleProbes) fireFunc(n int) {
	for i := range n {
		s.twoMixed.FireFunc(func() (string, int32) { return benchText + strconv.Itoa(i), int32(i) })
	}
}

func BenchmarkFireFunc(b *testing.B) {
	s := newIdleProbes(b)
	b.ReportAllocs()
	b.ResetTimer()
	s.fireFunc(b.N)
}

// BenchmarkFireParallel fires one probe b.N times in each of so many goroutines.
// On as many processors it takes no longer than one alone: nothing is written
// that they share.
func BenchmarkFireParallel(b *testing.B) {
	s := newIdleProbes(b)
	for _, goroutines := range []int{1, 2} {
		b.Run(fmt.Sprint("goroutines=", goroutines), func(b *testing.B) {
			b.ReportAllocs()
			var group sync.WaitGroup
			for range goroutines {
				group.Go(func() {
					for i := range b.N {
						s.twoMixed.Fire(benchText, int32(i))
					}
				})
			}
			group.Wait()
		})
	}
}

// newSized defines a provider of so many probes, kept in dir.
func newSized(b *testing.B, dir string, probes int) *Provider {
	p := NewProvider("bench", WithDir(dir))
	for i := range probes {
		_, err := p.AddProbe(fmt.Sprintf("probe%06d", i), Uint64, Int32)
		require.NoError(b, err)
	}
	return p
}

// loadOr loads, or skips where there is nothing to load.
func loadOr(b *testing.B, p *Provider) {
	err := p.Load()
	if errors.Is(err, ErrUnsupported) {
		b.Skip(err)
	}
	require.NoError(b, err)
}

func BenchmarkLoad(b *testing.B) {
	for _, c := range []struct {
		probes int
		file   string
	}{{1, "new"}, {1, "existing"}, {1000, "existing"}, {20000, "new"}, {20000, "existing"}} {
		b.Run(fmt.Sprintf("probes=%d/file=%s", c.probes, c.file), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "images")
			first := newSized(b, dir, c.probes)
			loadOr(b, first)
			b.Cleanup(func() { require.NoError(b, first.Close()) })
			b.ReportAllocs()
			for range b.N {
				b.StopTimer()
				p := newSized(b, dir, c.probes)
				if c.file == "new" {
					require.NoError(b, os.RemoveAll(first.Path()))
				}
				b.StartTimer()
				err := p.Load()
				b.StopTimer()
				require.NoError(b, err)
				require.NoError(b, p.Close())
				b.StartTimer()
			}
		})
	}
}

func BenchmarkUnload(b *testing.B) {
	p := newSized(b, filepath.Join(b.TempDir(), "images"), 1)
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		loadOr(b, p)
		b.StartTimer()
		if err := p.Unload(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReload unloads and loads again.
func BenchmarkReload(b *testing.B) {
	p := newSized(b, filepath.Join(b.TempDir(), "images"), 1)
	loadOr(b, p)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := errors.Join(p.Unload(), p.Load()); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, p.Close())
}

// TestIdleDoesNotAllocate fires everything that can be fired, once a run, while no
// tracer is attached.
func TestIdleDoesNotAllocate(t *testing.T) {
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	s := newIdleProbes(t)
	for _, f := range s.idleFires() {
		require.Zero(t, testing.AllocsPerRun(100, func() { f.fire(1) }), f.name)
	}
	var err error
	require.Zero(t, testing.AllocsPerRun(100, func() { err = s.fireAny(1) }), "variadic")
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() { s.fireFunc(1) }), "FireFunc")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if s.any.Enabled() {
			err = ErrLoaded
		}
	}), "Enabled")
	require.NoError(t, err)
}
