//go:build linux && (amd64 || arm64)

package stapsdt

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/tracetest"

	"github.com/stretchr/testify/require"
)

// scripted defines a provider of every kind of argument.
func scripted(opts ...Option) (p *Provider, fire func()) {
	p = NewProvider("my-app.v2", opts...)
	plain := NewProbe0(p, "plain")
	event := NewProbe5[string, int32, uint8, unsafe.Pointer, bool](p, "event")
	again := NewProbe5[string, int32, uint8, unsafe.Pointer, bool](p, "event")
	many, _ := p.AddProbe("many", Uint8, Int16, Uint32, Int64, String, Uint64, Uint8, Uint8)
	return p, func() {
		plain.Fire()
		event.Fire("grüße", -2, 3, nil, true)
		again.Fire("", 2, 255, nil, false)
		many.Fire(1, -2, 3, -4, "100%\n", uint64(1)<<63, 7, 8)
	}
}

// TestWriteScript has bpftrace run what is written, of a provider in a file and
// of one in memory.
func TestWriteScript(t *testing.T) {
	for place, opts := range map[string][]Option{"file": {WithDir(t.TempDir() + "/images")}, "memory": {WithMemfd()}} {
		t.Run(place, func(t *testing.T) {
			p, fire := scripted(opts...)
			load(t, p)
			var script strings.Builder
			require.NoError(t, p.WriteScript(&script))
			var args []string
			if place == "file" {
				require.Contains(t, script.String(), "bpftrace -p PID FILE")
				args = []string{"-p", strconv.Itoa(os.Getpid())}
			}
			tracer := tracetest.Bpftrace(t, script.String(), args...)
			fire()
			require.Equal(t, []string{
				`my-app.v2:plain()`,
				`my-app.v2:event("grüße", -2, 3, 0x0, 1)`,
				`my-app.v2:event("", 2, 255, 0x0, 0)`,
				`my-app.v2:many(1, -2, 3, -4, "100%`,
				`", 9223372036854775808, ...)`,
			}, tracer.WaitLines(5, patience))
			tracer.Stop()
		})
	}
}

// TestWriteScriptNames has bpftrace run a script of names that mean something to it.
func TestWriteScriptNames(t *testing.T) {
	names := []string{
		"plain", "dash-dot.v2", `back\slash`, "a;b", "a(b)", "a|b", "a%d", "a@b", "a=b", "a<b>", "it's", "~a", "$1", "#a", "a&&b",
		"a[0]", "!a", "`a`", "grüße", "名前",
	}
	p := newProvider(t, "it's;$1")
	probes := make([]*Probe1[int], len(names))
	lines := make([]string, len(names))
	for i, name := range names {
		probes[i] = NewProbe1[int](p, name)
		lines[i] = fmt.Sprintf("it's;$1:%s(%d)", name, i)
	}
	load(t, p)
	var script strings.Builder
	require.NoError(t, p.WriteScript(&script))
	tracer := tracetest.Bpftrace(t, script.String(), "-p", strconv.Itoa(os.Getpid()))
	for i, probe := range probes {
		probe.Fire(i)
	}
	require.Equal(t, lines, tracer.WaitLines(len(lines), patience))
	tracer.Stop()
}

// TestWriteScriptUnloaded: a script can be written before there is a process.
func TestWriteScriptUnloaded(t *testing.T) {
	p := NewProvider("50%")
	NewProbe1[int](p, `back\slash`)
	var script strings.Builder
	require.NoError(t, p.WriteScript(&script))
	require.Equal(t, `// Prints what 50% fires in a process. Run it, as root, with
//
//	bpftrace -p PID FILE

usdt:*:"50%":back\slash
{
	printf("50%s:back\\slash(%ld)\n", "%", arg0);
}
`, script.String())
	require.Error(t, p.WriteScript(failing{}))
	require.NoError(t, p.WriteScript(asking{p})) // it holds no lock
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

type asking struct{ p *Provider }

func (w asking) Write(b []byte) (int, error) { return len(b), w.p.Unload() }
