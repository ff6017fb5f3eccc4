package stapsdt

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestArgNames(t *testing.T) {
	p := newProvider(t, "names")
	for i, probe := range []*Probe{
		&NewProbe1[int](p, "p1", "a").Probe,
		&NewProbe2[int, string](p, "p2", "a", "b").Probe,
		&NewProbe3[int, string, int](p, "p3", "a", "b", "c").Probe,
		&NewProbe4[int, string, int, int](p, "p4", "a", "b", "c", "d").Probe,
		&NewProbe5[int, string, int, int, bool](p, "p5", "a", "b", "c", "d", "e").Probe,
		&NewProbe6[int, string, int, int, bool, int8](p, "p6", "a", "b", "c", "d", "e", "f").Probe,
	} {
		require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}[:i+1], probe.argNames())
		require.Len(t, probe.types, i+1)
	}
	require.Nil(t, NewProbe0(p, "p0").argNames())
	require.Nil(t, NewProbe2[int, int](p, "none").argNames())
	require.Nil(t, NewProbe2[int, int](p, "none", []string{}...).argNames())
	require.Nil(t, NewProbe1[int](nil, "nil", "a").argNames())
	require.NoError(t, p.err)
	duration := NewProbe1[time.Duration](p, "duration", "a")
	args := duration.Args()
	require.Equal(t, []ArgInfo{{"a", Int64, KindDuration}}, args)
	args[0].Name = "changed"
	require.Equal(t, "a", duration.Args()[0].Name, "the caller has a copy")
	require.Equal(t, []ArgInfo{{"", String, KindString}}, NewProbe1[string](p, "unnamed").Args())
	list := []string{"a", "b"}
	probe := NewProbe2[int, int](p, "list", list...)
	list[0] = "not a name"
	require.Equal(t, []string{"a", "b"}, probe.argNames(), "so has the probe")
	require.Nil(t, new(Probe).argNames())
}

// TestFirstNamesWin: whichever way names the arguments of a probe first, the others cannot change them.
func TestFirstNamesWin(t *testing.T) {
	type tagged struct {
		A int64 `probe:"tag"`
	}
	ways := map[string]func(p *Provider) (*Probe, error){
		"parameter": func(p *Provider) (*Probe, error) {
			probe := NewProbe1[int64](p, "probe", "parameter")
			return &probe.Probe, p.Load()
		},
		"tag": func(p *Provider) (*Probe, error) {
			probe := NewProbeOf[tagged](p, "probe")
			return &probe.Probe, p.Load()
		},
		"later": func(p *Provider) (*Probe, error) {
			probe, err := p.AddProbe("probe", Int64)
			require.NoError(t, err)
			return probe, probe.NameArgs("later")
		},
	}
	for first, name := range ways {
		for second, other := range ways {
			if first == second {
				continue
			}
			p := newProvider(t, "first")
			probe, err := name(p)
			require.NoError(t, err)
			require.NoError(t, p.Unload())
			_, err = other(p)
			require.ErrorIs(t, err, ErrConflict, "%s after %s", second, first)
			require.Equal(t, first, probe.Args()[0].Name)
		}
	}
}

func TestWrongNames(t *testing.T) {
	for _, c := range []struct {
		names    []string
		sentinel error
		text     string
	}{
		{[]string{"a"}, ErrArgCount, "wrong number of arguments: got 1 names, want 2"},
		{[]string{"a", "b", "c"}, ErrArgCount, "wrong number of arguments: got 3 names, want 2"},
		{[]string{"a", ""}, ErrName, `invalid name: the name "" of argument 1 is empty`},
		{[]string{"a", "a"}, ErrName, `invalid name: the name "a" of argument 1 occurs twice`},
		{[]string{"1a", "b"}, ErrName, `invalid name: the name "1a" of argument 0 is not a C identifier`},
		{[]string{"a", "b-c"}, ErrName, `invalid name: the name "b-c" of argument 1 is not a C identifier`},
		{[]string{"größe", "b"}, ErrName, `invalid name: the name "größe" of argument 0 is not a C identifier`},
		{[]string{"a\n", "b"}, ErrName, `invalid name: the name "a\n" of argument 0 is not a C identifier`},
		{[]string{"a", "int"}, ErrName, `invalid name: the name "int" of argument 1 is reserved`},
		{[]string{"a", "common_pid"}, ErrName, `invalid name: the name "common_pid" of argument 1 is reserved`},
		{[]string{strings.Repeat("x", 33), "b"}, ErrName, `invalid name: the name "` + strings.Repeat("x", 33) + `" of argument 0 has more than 32 bytes`},
	} {
		p := newProvider(t, "wrong")
		probe := NewProbe2[int32, string](p, "probe", c.names...)
		require.Nil(t, probe.argNames())
		probe.Fire(1, "")
		err := p.Load()
		require.ErrorIs(t, err, c.sentinel)
		require.EqualError(t, err, "stapsdt: define wrong:probe: "+c.text)
		requireOneLine(t, err)
		require.Empty(t, p.Probes())

		p = newProvider(t, "wrong")
		dynamic, err := p.AddProbe("probe", Int32, String)
		require.NoError(t, err)
		require.EqualError(t, dynamic.NameArgs(c.names...), "stapsdt: define wrong:probe: "+c.text)
		require.Nil(t, dynamic.argNames())
		require.NoError(t, dynamic.NameArgs("_", strings.Repeat("Z9", 16)))
	}
}

// TestSitesShareNames: the names belong to the probe, whichever of its definitions
// gives them.
func TestSitesShareNames(t *testing.T) {
	p := newProvider(t, "share")
	first := NewProbe2[int32, string](p, "probe")
	second := NewProbe2[int32, string](p, "probe", "a", "b")
	third, err := p.AddProbe("probe", Int32, String)
	require.NoError(t, err)
	other := NewProbe2[int32, string](p, "other")
	for _, probe := range []*Probe{&first.Probe, &second.Probe, third} {
		require.Equal(t, []string{"a", "b"}, probe.argNames())
	}
	require.Nil(t, other.argNames())
	require.NoError(t, third.NameArgs("a", "b"), "it has these names")
	err = third.NameArgs("a", "c")
	require.ErrorIs(t, err, ErrConflict)
	require.EqualError(t, err, "stapsdt: define share:probe: conflicting arguments: a probe of this name has the argument names [a b]")
	NewProbe2[int32, string](p, "probe", "b", "a")
	require.EqualError(t, p.Load(), err.Error())
}

func TestNameArgs(t *testing.T) {
	p := newProvider(t, "later")
	probe, err := p.AddProbe("probe", Int32, Uint8)
	require.NoError(t, err)
	site, err := p.AddProbe("probe", Int32, Uint8)
	require.NoError(t, err)
	require.ErrorIs(t, probe.NameArgs(), ErrArgCount)
	names := []string{"a", "b"}
	require.NoError(t, probe.NameArgs(names...))
	names[0] = "changed"
	require.Equal(t, []string{"a", "b"}, probe.argNames())
	require.Equal(t, []string{"a", "b"}, site.argNames())
	none, err := p.AddProbe("none")
	require.NoError(t, err)
	require.NoError(t, none.NameArgs())
	require.ErrorIs(t, none.NameArgs("a"), ErrArgCount)

	rejected, err := p.AddProbe("probe", Int8)
	require.ErrorIs(t, err, ErrConflict)
	err = rejected.NameArgs("a")
	require.EqualError(t, err, "stapsdt: define later:probe: the provider does not have this probe")
	nowhere, err := (*Provider)(nil).AddProbe("probe", Int8)
	require.ErrorIs(t, err, errZero)
	require.ErrorIs(t, nowhere.NameArgs("a"), errZero)
	require.ErrorIs(t, new(Probe).NameArgs(), errZero)

	require.NoError(t, p.Close())
	require.ErrorIs(t, probe.NameArgs("a", "b"), ErrClosed)
}
