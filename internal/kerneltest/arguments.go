//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/tracetest"

	"github.com/stretchr/testify/require"
)

// extremes are the values of each type at its ends and around zero, and what a
// tracer extends them to.
var extremes = map[stapsdt.ArgType][]extreme{
	stapsdt.Uint8:  {{uint8(0), 0}, {uint8(1), 1}, {uint8(math.MaxUint8), 0xff}, {uint8(0x80), 0x80}},
	stapsdt.Int8:   {{int8(0), 0}, {int8(-1), minus(1)}, {int8(math.MaxInt8), 0x7f}, {int8(math.MinInt8), minus(0x80)}},
	stapsdt.Uint16: {{uint16(0), 0}, {uint16(1), 1}, {uint16(math.MaxUint16), 0xffff}, {uint16(0x8000), 0x8000}},
	stapsdt.Int16:  {{int16(0), 0}, {int16(-1), minus(1)}, {int16(math.MaxInt16), 0x7fff}, {int16(math.MinInt16), minus(0x8000)}},
	stapsdt.Uint32: {{uint32(0), 0}, {uint32(1), 1}, {uint32(math.MaxUint32), 0xffffffff}, {uint32(1 << 31), 1 << 31}},
	stapsdt.Int32:  {{int32(0), 0}, {int32(-1), minus(1)}, {int32(math.MaxInt32), 1<<31 - 1}, {int32(math.MinInt32), minus(1 << 31)}},
	stapsdt.Uint64: {{uint64(0), 0}, {uint64(1), 1}, {uint64(math.MaxUint64), math.MaxUint64}, {uint64(1 << 63), 1 << 63}},
	stapsdt.Int64:  {{int64(0), 0}, {int64(-1), minus(1)}, {int64(math.MaxInt64), 1<<63 - 1}, {int64(math.MinInt64), 1 << 63}},
}

type extreme struct {
	value any
	word  uint64
}

// minus returns -n in 64 bits.
func minus(n uint64) uint64 { return -n }

// argTypes are the integer types, in an order in which neighbours differ.
var argTypes = []stapsdt.ArgType{
	stapsdt.Uint8, stapsdt.Int64, stapsdt.Uint16, stapsdt.Int32, stapsdt.Uint64, stapsdt.Int8, stapsdt.Uint32, stapsdt.Int16,
}

// sampled is a probe that is attached to, and its note.
type sampled struct {
	*stapsdt.Probe
	note   tracetest.Note
	uprobe *tracetest.Uprobe
}

func sample(t *T, probe *stapsdt.Probe) *sampled {
	note := noteOf(t, probe)
	u, err := tracetest.AttachUprobe(probe.Provider().Path(), note.Offset)
	require.NoError(t, err)
	t.Cleanup(func() { u.Close() })
	return &sampled{probe, note, u}
}

// fire fires the probe and returns its arguments as a tracer decodes them by
// the note.
func (s *sampled) fire(t *T, args ...any) []uint64 {
	require.NoError(t, s.Fire(args...))
	sample, err := s.uprobe.Read(patience)
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), sample.PID)
	words := make([]uint64, len(s.note.Args))
	for i, arg := range s.note.Args {
		words[i], err = sample.Arg(arg)
		require.NoError(t, err)
	}
	return words
}

// arguments fires every number of arguments, and every type in every place,
// with each of its extremes, and reads registers and stack at the site.
func arguments(t *T, where placement) {
	p := newProvider(t, "arguments", where)
	for n := range stapsdt.MaxArgs + 1 {
		shifts := 1
		if n == stapsdt.MaxArgs {
			shifts = len(argTypes)
		}
		for shift := range shifts {
			types := make([]stapsdt.ArgType, n)
			for i := range types {
				types[i] = argTypes[(i+shift)%len(argTypes)]
			}
			addProbe(t, p, fmt.Sprintf("n%d_%d", n, shift), types...)
		}
	}
	require.NoError(t, p.Load())
	if where == inMemory {
		require.Regexp(t, "^/proc/", p.Path())
	} else {
		require.Regexp(t, "^"+os.TempDir(), p.Path())
	}
	events := 0
	for _, probe := range p.Probes() {
		s := sample(t, probe)
		for round := range 4 {
			args, want := make([]any, len(probe.Args())), make([]uint64, len(probe.Args()))
			for i, typ := range probe.Args() {
				e := extremes[typ][(round+i)%4]
				args[i], want[i] = e.value, e.word
			}
			require.Equal(t, want, s.fire(t, args...), "%s %v", probe, args)
			events++
		}
	}
	t.Notef("%d events of %d probes", events, len(p.Probes()))
}

// stringArguments reads strings where the tracer is told they are.
func stringArguments(t *T) {
	p := newProvider(t, "strings", inFile)
	s := addProbe(t, p, "say", stapsdt.String, stapsdt.Int32, stapsdt.String)
	require.NoError(t, p.Load())
	say := sample(t, s)
	long := strings.Repeat("0123456789abcdef", 625)
	for _, size := range []int{0, 1, 4095, 10000} {
		for _, text := range []any{long[:size], []byte(long[:size])} {
			words := say.fire(t, text, -7, "second")
			seen := min(size, stapsdt.MaxString-1)
			require.Equal(t, long[:seen]+"\x00", textAt(t, words[0], seen+1))
			require.Equal(t, minus(7), words[1])
			require.Equal(t, "second\x00", textAt(t, words[2], 7))
		}
	}
}

// textAt reads what a probe was fired with. The buffer is pooled, and nobody has
// taken it since.
func textAt(t *T, addr uint64, size int) string {
	memory, err := os.Open("/proc/self/mem")
	require.NoError(t, err)
	defer memory.Close()
	text := make([]byte, size)
	_, err = memory.ReadAt(text, int64(addr))
	require.NoError(t, err)
	return string(text)
}
