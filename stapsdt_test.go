package stapsdt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// load loads a provider in a directory of the test's own, and closes it at its end.
func load(t testing.TB, p *Provider) {
	t.Helper()
	needsLoader(t)
	require.NoError(t, p.Load())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
}

// newProvider defines a provider that is kept in a directory of the test's own.
func newProvider(t testing.TB, name string, opts ...Option) *Provider {
	return NewProvider(name, append([]Option{WithDir(t.TempDir() + "/images")}, opts...)...)
}

// TestZeroProvider: what NewProvider did not make has no name, and says so. Its
// probes do nothing.
func TestZeroProvider(t *testing.T) {
	for what, p := range map[string]*Provider{"zero": {}, "nil": nil} {
		t.Run(what, func(t *testing.T) {
			probe, err := p.AddProbe("probe", Int32)
			require.EqualError(t, err, "stapsdt: define :probe: the provider was not created by NewProvider")
			require.NoError(t, probe.Fire(1))
			require.Same(t, p, probe.Provider())
			require.Equal(t, ":probe", probe.String())
			enable(probe)
			require.EqualError(t, probe.Fire(), "stapsdt: fire :probe: wrong number of arguments: got 0, want 1")
			typed := NewProbe1[int](p, "typed")
			typed.Fire(1)
			require.False(t, typed.Enabled())
			require.Equal(t, ":typed", typed.String())
			require.EqualError(t, p.Load(), "stapsdt: load: the provider was not created by NewProvider")
			require.Empty(t, p.Name())
			require.Empty(t, p.Path())
			require.False(t, p.Loaded())
			require.Empty(t, p.Probes())
			require.NoError(t, p.Unload())
			require.NoError(t, p.Close())
			require.NoError(t, p.Close())
		})
	}
	require.Panics(t, func() { newProvider(t, "options", nil) }, "as in packages span and probetest")
}

// TestZeroProbe: a probe that nothing defined can be asked for what it is. It
// cannot be fired, as the documentation says: the test for that would cost.
func TestZeroProbe(t *testing.T) {
	var zero Probe6[int, int, int, int, int, int]
	require.Empty(t, zero.Name())
	require.Equal(t, ":", zero.String())
	require.Nil(t, zero.Provider())
	require.Empty(t, zero.args)
	require.Panics(t, func() { zero.Enabled() })
	require.Panics(t, func() { zero.Fire(1, 2, 3, 4, 5, 6) })
	require.Panics(t, func() { zero.FireFunc(nil) })
	require.Panics(t, func() { new(Probe).Fire() })
}

func TestLifecycle(t *testing.T) {
	needsLoader(t)
	p := newProvider(t, "life")
	first, err := p.AddProbe("first", Uint8, String)
	require.NoError(t, err)
	require.Equal(t, "first", first.Name())
	require.Equal(t, "life:first", first.String())
	require.Same(t, p, first.Provider())
	require.Equal(t, []ArgType{Uint8, String}, first.args)
	require.False(t, p.Loaded())
	require.Empty(t, p.Path())
	require.NoError(t, p.Unload(), "unload before load does nothing")

	require.NoError(t, p.Load())
	require.True(t, p.Loaded())
	require.FileExists(t, p.Path())
	require.False(t, first.Enabled())
	require.NoError(t, first.Fire(1, "one"))

	require.ErrorIs(t, p.Load(), ErrLoaded)

	require.NoError(t, p.Unload())
	require.False(t, p.Loaded())
	require.Empty(t, p.Path())
	require.False(t, first.Enabled())
	require.NoError(t, first.Fire(1, "one"))

	second, err := p.AddProbe("second")
	require.NoError(t, err)
	require.NoError(t, p.Load())
	require.Equal(t, []*Probe{first, second}, p.Probes())

	require.NoError(t, p.Close())
	require.NoError(t, p.Close(), "closing again does nothing")
	require.NoError(t, p.Unload())
	require.ErrorIs(t, p.Load(), ErrClosed)
	_, err = p.AddProbe("more")
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, second.Fire())
	require.False(t, second.Enabled())
}

func TestNames(t *testing.T) {
	needsLoader(t)
	good := []string{"a", "request__done", "my-app.v2", "sub-entry", "ünïcode", "日本", strings.Repeat("x", MaxName), "%s", "..", "a'b", "$(x)", `back\slash`}
	bad := []string{"", strings.Repeat("x", MaxName+1), "a:b", "a*", "a?", "a/b", "/", `a"b`, "a,b", "a{", "}", "a b", "a\tb", "a\nb",
		"nul\x00", "\x7f", "\xff\xfe", "\u0085", "\u00a0", "\u2028", "\x1b[31m", "zero\u200bwidth", "\u202ertl"}
	for _, name := range good {
		p := newProvider(t, name)
		_, err := p.AddProbe(name, Int8)
		require.NoError(t, err, "%q", name)
		require.NoError(t, p.Load(), "%q", name)
		require.NoError(t, p.Close())
	}
	for _, name := range bad {
		p := newProvider(t, name)
		err := p.Load()
		require.ErrorIs(t, err, ErrName, "%q", name)
		requireOneLine(t, err)
		p = newProvider(t, "fine")
		_, err = p.AddProbe(name)
		require.ErrorIs(t, err, ErrName, "%q", name)
		requireOneLine(t, err)
		require.NoError(t, p.Load(), "AddProbe has told: Load need not")
		require.Empty(t, p.Probes())
		require.NoError(t, p.Close())
	}
}

// requireOneLine finds that an error can be logged: one line, our prefix once.
func requireOneLine(t *testing.T, err error) {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	text := err.Error()
	require.Equal(t, 1, strings.Count(text, "stapsdt:"), text)
	require.True(t, strings.HasPrefix(text, "stapsdt: "), text)
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), "%q", text)
}

func TestArgumentLimits(t *testing.T) {
	p := newProvider(t, "limits")
	for n := range MaxArgs + 1 {
		args := make([]ArgType, n)
		for i := range args {
			args[i] = Int16
		}
		_, err := p.AddProbe(fmt.Sprint("args", n), args...)
		require.NoError(t, err)
	}
	_, err := p.AddProbe("many", make([]ArgType, MaxArgs+1)...)
	require.ErrorIs(t, err, ErrTooManyArgs)
	for _, bad := range []ArgType{noArg, 3, -3, 5, 16 + 1, -16, 127, -128} {
		_, err := p.AddProbe("bad", Int8, bad)
		require.ErrorIs(t, err, ErrArgType, "%d", bad)
	}
	load(t, p)
	require.Len(t, p.Probes(), MaxArgs+1)
}

// enable lets the program see a probe as traced, so that what Fire checks is
// checked. It must not come to the call: there is nothing to call.
func enable(p *Probe) {
	for b := range 256 {
		p.move(&[]byte{byte(b)}[0])
		if p.on() {
			return
		}
	}
	panic("no byte enables a probe")
}

func TestFireChecks(t *testing.T) {
	p := newProvider(t, "checks")
	probe, err := p.AddProbe("pair", Uint8, String)
	require.NoError(t, err)
	require.NoError(t, probe.Fire("not", "checked", "while", "idle"))
	require.False(t, patched(&noSite[0]))
	enable(probe)
	require.True(t, probe.Enabled())
	require.True(t, patched((*byte)(probe.at)), "Unload looks at the site as Fire does")
	for _, args := range [][]any{{}, {1}, {1, "a", 2}} {
		err := probe.Fire(args...)
		require.ErrorIs(t, err, ErrArgCount, "%v", args)
		requireOneLine(t, err)
	}
	for _, args := range [][]any{
		{256, "a"}, {-1, "a"}, {1.5, "a"}, {nil, "a"}, {"1", "a"}, {[]byte("1"), "a"}, {struct{}{}, "a"}, {int64(1) << 40, "a"},
		{uint64(1) << 63, "a"}, {1, 1}, {1, nil}, {1, 'a'}, {1, []rune("a")}, {1, &p}, {1, [1]byte{'a'}}, {func() {}, "a"},
		{1, errors.New("no Stringer is asked")},
	} {
		err := probe.Fire(args...)
		require.ErrorIs(t, err, ErrArgType, "%v", args)
		requireOneLine(t, err)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, Error{Op: "fire", Provider: "checks", Probe: "pair", Err: e.Err}, *e)
	}
}

// TestLoadFailureLeavesNoOps: where a directory was demanded there is no other place.
func TestLoadFailureLeavesNoOps(t *testing.T) {
	needsLoader(t)
	p := NewProvider("nowhere", WithDir("/proc/self"))
	probe, err := p.AddProbe("x", Int32)
	require.NoError(t, err)
	err = p.Load()
	require.ErrorIs(t, err, ErrPlace)
	require.ErrorContains(t, err, "WithDir: ")
	requireOneLine(t, err)
	require.False(t, p.Loaded())
	require.Empty(t, p.Path())
	require.NoError(t, probe.Fire(1))

	t.Setenv("STAPSDT_DIR", "/proc/self/fdinfo")
	demanded := NewProvider("nowhere")
	err = demanded.Load()
	require.ErrorIs(t, err, ErrPlace)
	require.ErrorContains(t, err, "$STAPSDT_DIR: ")

	t.Setenv("STAPSDT_DIR", "")
	t.Setenv("XDG_RUNTIME_DIR", "/nonexistent")
	t.Setenv("TMPDIR", "/nonexistent")
	require.NoError(t, demanded.Load(), "memory is the last resort")
	require.True(t, strings.HasPrefix(demanded.Path(), fmt.Sprintf("/proc/%d/fd/", os.Getpid())), demanded.Path())
	require.NoError(t, demanded.Close())
}

// TestLastPlaceApplies: of the options that say where a provider is kept.
func TestLastPlaceApplies(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	t.Setenv("STAPSDT_DIR", other)
	for _, c := range []struct {
		opts []Option
		want string
	}{
		{nil, other},
		{[]Option{WithDir(dir)}, dir},
		{[]Option{WithDir(other), WithDir(dir)}, dir},
		{[]Option{WithMemfd(), WithDir(dir)}, dir},
		{[]Option{WithDir(dir), WithDir("")}, other},
		{[]Option{WithMemfd(), WithDir("")}, other},
		{[]Option{WithDir(dir), WithMemfd()}, fmt.Sprintf("/proc/%d/fd", os.Getpid())},
	} {
		p := NewProvider("place", c.opts...)
		load(t, p)
		require.Equal(t, c.want, filepath.Dir(p.Path()))
	}
}

func TestErrorCodes(t *testing.T) {
	for code, text := range map[ErrorCode]string{
		NoError: "noError", ELFCreation: "elfCreationError", TmpCreation: "tmpCreationError",
		SharedLibraryOpen: "sharedLibraryOpenError", SymbolLoading: "symbolLoadingError",
		SharedLibraryClose: "sharedLibraryCloseError", 9: "ErrorCode(9)", -1: "ErrorCode(-1)",
	} {
		require.Equal(t, text, code.String())
	}
	require.Zero(t, NoError)
	err := &Error{Op: "load", Provider: "p\n", Code: TmpCreation, Err: os.ErrPermission}
	require.Equal(t, `stapsdt: load p\n: permission denied`, err.Error())
	require.ErrorIs(t, err, os.ErrPermission)
}

// TestUnfilledErrors: an Error that another package made, or left nil in an error, prints
// something that is true.
func TestUnfilledErrors(t *testing.T) {
	for text, err := range map[string]*Error{
		"<nil>":                              nil,
		"stapsdt: error":                     {},
		"stapsdt: error: permission denied":  {Err: os.ErrPermission},
		"stapsdt: load":                      {Op: "load"},
		"stapsdt: load p":                    {Op: "load", Provider: "p"},
		"stapsdt: define :x":                 {Op: "define", Probe: "x"},
		"stapsdt: error p: tmpCreationError": {Provider: "p", Code: TmpCreation},
	} {
		require.Equal(t, text, err.Error())
	}
	require.NoError(t, (*Error)(nil).Unwrap())
	require.NotErrorIs(t, (*Error)(nil), os.ErrPermission)
}
