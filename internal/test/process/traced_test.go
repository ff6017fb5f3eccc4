//go:build linux && (amd64 || arm64)

package process

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	tracetest.Main(m, map[string]func(args []string){
		"fault":    faultChild,
		"limit":    limitChild,
		"vanish":   vanishChild,
		"killed":   killedChild,
		"attacker": attackerChild,
		"victim":   victimChild,
		"dump":     dumpChild,
		"profile":  profileChild,
		"place":    placeChild,
		"dispatch": dispatchChild,
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
	notes := tracetest.Must(sdt.ReadFile(p.Path()))(t)
	require.Len(t, notes, len(p.Probes()))
	list := make([]tracedProbe, len(probes))
	t.Cleanup(func() { detach(list) })
	for i, probe := range probes {
		note := notes[slices.Index(p.Probes(), probe)]
		u := tracetest.Must(tracetest.AttachUprobe(p.Path(), note.Offset, thread))(t)
		list[i] = tracedProbe{probe, u, note}
	}
	for _, p := range list {
		require.Equal(t, p.Name(), p.note.Name)
		require.Equal(t, p.Provider().Name(), p.note.Provider)
		require.Len(t, p.note.Args, len(p.Args()))
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
	s := tracetest.Must(p.uprobe.Read(testenv.Patience))(t)
	require.Equal(t, os.Getpid(), s.PID)
	return s
}

// arg returns an argument of a sample, decoded by the note.
func (p tracedProbe) arg(t testing.TB, s tracetest.Sample, i int) uint64 {
	t.Helper()
	word := tracetest.Must(s.Arg(p.note.Args[i]))(t)
	return word
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

// load loads a provider, and closes it when the test ends.
func load(t testing.TB, p *stapsdt.Provider) {
	t.Helper()
	require.NoError(t, p.Load())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
}

// newProvider defines a provider that is kept in a directory of the test's own.
func newProvider(t testing.TB, name string, opts ...stapsdt.Option) *stapsdt.Provider {
	return stapsdt.NewProvider(name, append([]stapsdt.Option{stapsdt.WithDir(t.TempDir() + "/images")}, opts...)...)
}

// requireOneLine finds that an error can be logged: one line, our prefix once.
func requireOneLine(t *testing.T, err error) {
	t.Helper()
	var e *stapsdt.Error
	require.ErrorAs(t, err, &e)
	text := err.Error()
	require.Equal(t, 1, strings.Count(text, "stapsdt:"), text)
	require.True(t, strings.HasPrefix(text, "stapsdt: "), text)
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), "%q", text)
}

// A string and bytes that an argument is made of at run time.
var (
	benchText  = "/index/page.html"
	benchBytes = []byte("/index/page.html")
)
