//go:build linux && (amd64 || arm64)

package arguments

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

// types are all of them, in an order in which neighbours differ in size and sign.
var types = []stapsdt.ArgType{
	stapsdt.Uint8, stapsdt.Int64, stapsdt.Uint16, stapsdt.String, stapsdt.Int32, stapsdt.Float64, stapsdt.Uint64, stapsdt.Int8, stapsdt.Float32,
	stapsdt.Uint32, stapsdt.Int16,
}

// TestArguments fires every number of arguments, with every type in every place, and there each of its values.
func TestArguments(t *testing.T) {
	everywhere(t, func(t *testing.T, s *suite) {
		values := valuesOf(newRandom(t))
		for n := range stapsdt.MaxArgs + 1 {
			for shift := range types {
				list := make([]stapsdt.ArgType, n)
				for i := range list {
					list[i] = types[(i+shift)%len(types)]
				}
				probe, err := s.AddProbe(fmt.Sprintf("n%d_%d", n, shift), list...)
				require.NoError(t, err)
				addRounds(s, probe, list, values)
			}
		}
	})
}

// addRounds adds as many cases as there are values of the type that has the most, with other ones in every place.
func addRounds(s *suite, probe *stapsdt.Probe, list []stapsdt.ArgType, values map[stapsdt.ArgType][]any) {
	rounds := 1
	for _, typ := range list {
		rounds = max(rounds, len(values[typ]))
	}
	for round := range rounds {
		args := make([]any, len(list))
		for i, typ := range list {
			args[i] = values[typ][(round+i)%len(values[typ])]
		}
		s.dynamic(probe, args...)
	}
}

// TestStrings fires as many strings at once as there can be.
func TestStrings(t *testing.T) {
	everywhere(t, func(t *testing.T, s *suite) {
		all := slices.Repeat([]stapsdt.ArgType{stapsdt.String}, stapsdt.MaxArgs)
		probe, err := s.AddProbe("all", all...)
		require.NoError(t, err)
		addRounds(s, probe, all, valuesOf(newRandom(t)))
	})
}

// TestPlaces: each trace point of a name is its own site, and other kinds of Go values are what they are.
func TestPlaces(t *testing.T) {
	type (
		level int16
		path  string
		blob  []byte
	)
	everywhere(t, func(t *testing.T, s *suite) {
		object := new(int)
		for i := range 3 {
			probe, err := s.AddProbe("event", stapsdt.Int32, stapsdt.Uint64, stapsdt.String, stapsdt.Uint8)
			require.NoError(t, err)
			s.dynamic(probe, i, unsafe.Pointer(object), path("/x"), true)
			s.dynamic(probe, level(-i), uintptr(i), blob("bytes"), false)
		}
		// Those that do not fit are refused, and nothing is seen of them.
		probe, err := s.AddProbe("refused", stapsdt.Int8)
		require.NoError(t, err)
		s.add(probe, func() error {
			if err := probe.Fire(128); err == nil {
				return fmt.Errorf("128 was fired as an int8")
			}
			if err := probe.Fire(); err == nil {
				return fmt.Errorf("nothing was fired as an int8")
			}
			return probe.Fire(127)
		}, 127)
	})
}
