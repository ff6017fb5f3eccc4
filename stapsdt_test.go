package stapsdt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// load loads a provider in a folder of the test's own, and closes it at its end.
func load(t testing.TB, p *Provider) {
	t.Helper()
	require.NoError(t, p.Load())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
}

// newProvider defines a provider that is kept in a folder of the test's own.
func newProvider(t testing.TB, name string, opts ...Option) *Provider {
	return NewProvider(name, append([]Option{WithDir(t.TempDir() + "/images")}, opts...)...)
}

// TestZeroProvider: what NewProvider did not make has no name, and says so.
func TestZeroProvider(t *testing.T) {
	var p Provider
	probe, err := p.AddProbe("probe", Int32)
	require.ErrorIs(t, err, ErrName)
	require.NoError(t, probe.Fire(1))
	NewProbe1[int](&p, "typed").Fire(1)
	require.ErrorIs(t, p.Load(), ErrName)
	require.ErrorIs(t, p.WriteScript(io.Discard), ErrName)
	require.Empty(t, p.Probes())
	require.NoError(t, p.Unload())
	require.NoError(t, p.Close())

	load(t, newProvider(t, "options", nil)) // an option that is not wanted
}

func TestLifecycle(t *testing.T) {
	p := newProvider(t, "life")
	first, err := p.AddProbe("first", Uint8, String)
	require.NoError(t, err)
	require.Equal(t, "first", first.Name())
	require.Equal(t, "life:first", first.String())
	require.Same(t, p, first.Provider())
	require.Equal(t, []ArgType{Uint8, String}, first.Args())
	require.False(t, p.Loaded())
	require.Empty(t, p.Path())
	require.NoError(t, p.Unload(), "unload before load does nothing")

	require.NoError(t, p.Load())
	require.True(t, p.Loaded())
	require.FileExists(t, p.Path())
	require.False(t, first.Enabled())
	require.NoError(t, first.Fire(1, "one"))

	late, err := p.AddProbe("late")
	require.ErrorIs(t, err, ErrLoaded)
	require.NoError(t, late.Fire(), "a probe that could not be added does nothing")
	require.Equal(t, []*Probe{first}, p.Probes())
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

func TestEmptyProviderLoads(t *testing.T) {
	p := newProvider(t, "empty")
	load(t, p)
	require.FileExists(t, p.Path())
}

func TestNames(t *testing.T) {
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

func TestSecondTracePoint(t *testing.T) {
	p := newProvider(t, "twice")
	a, err := p.AddProbe("event", Int32)
	require.NoError(t, err)
	b, err := p.AddProbe("event", Int32)
	require.NoError(t, err)
	require.NotSame(t, a, b)
	_, err = p.AddProbe("event", Uint32)
	require.ErrorIs(t, err, ErrName)
	_, err = p.AddProbe("event")
	require.ErrorIs(t, err, ErrName)
	require.Len(t, p.Probes(), 2)
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
	for _, bad := range []ArgType{NoArg, 3, -3, 5, 16 + 1, -16, 127, -128} {
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
	enable(probe)
	require.True(t, probe.Enabled())
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
		require.Equal(t, Error{Op: "fire", Provider: "checks", Probe: "pair", Code: NoError, Err: e.Err}, *e)
	}
}

func TestLoadFailureLeavesNoOps(t *testing.T) {
	p := NewProvider("nowhere", WithDir("/proc/self"))
	probe, err := p.AddProbe("x", Int32)
	require.NoError(t, err)
	t.Setenv("STAPSDT_DIR", "/proc/self/fdinfo")
	t.Setenv("XDG_RUNTIME_DIR", "/nonexistent")
	t.Setenv("TMPDIR", "/nonexistent")
	require.NoError(t, p.Load(), "memory is the last resort")
	require.True(t, strings.HasPrefix(p.Path(), fmt.Sprintf("/proc/%d/fd/", os.Getpid())), p.Path())
	require.NoError(t, probe.Fire(1))
	require.NoError(t, p.Close())
}

func TestErrorCodes(t *testing.T) {
	for code, text := range map[ErrorCode]string{
		NoError: "noError", ElfCreation: "elfCreationError", TmpCreation: "tmpCreationError",
		SharedLibraryOpen: "sharedLibraryOpenError", SymbolLoading: "symbolLoadingError",
		SharedLibraryClose: "sharedLibraryCloseError", 9: "ErrorCode(9)",
	} {
		require.Equal(t, text, code.String())
	}
	err := &Error{Op: "load", Provider: "p\n", Code: TmpCreation, Err: os.ErrPermission}
	require.Equal(t, `stapsdt: load p\n: tmpCreationError: permission denied`, err.Error())
	require.ErrorIs(t, err, os.ErrPermission)
}
