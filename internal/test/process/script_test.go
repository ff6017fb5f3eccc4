//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// scripted defines a provider of every kind of argument.
func scripted(opts ...stapsdt.Option) (p *stapsdt.Provider, fire func()) {
	p = stapsdt.NewProvider("my-app.v2", opts...)
	plain := stapsdt.NewProbe0(p, "plain")
	event := stapsdt.NewProbe5[string, int32, uint8, unsafe.Pointer, bool](p, "event")
	again := stapsdt.NewProbe5[string, int32, uint8, unsafe.Pointer, bool](p, "event")
	named := stapsdt.NewProbe4[string, int8, float64, float32](p, "named", "path", "status", "seconds", "ratio")
	fields := stapsdt.NewProbeOf[fieldArgs](p, "fields")
	many, _ := p.AddProbe("many", stapsdt.Uint8, stapsdt.Int16, stapsdt.Uint32, stapsdt.Int64, stapsdt.String, stapsdt.Uint64, stapsdt.Uint8, stapsdt.Uint8)
	return p, func() {
		plain.Fire()
		event.Fire("grüße", -2, 3, nil, true)
		again.Fire("", 2, 255, nil, false)
		named.Fire("/index.html", -1, 1.5, -2)
		fields.Fire(fieldArgs{A: "a", B: 0.1, C: []byte("bytes"), D: -4, E: 5, F: 6, G: 7})
		many.Fire(1, -2, 3, -4, "100%\n", uint64(1)<<63, 7, 8)
	}
}

// TestWriteScript has bpftrace run what is written, of a provider in a file and
// of one in memory.
func TestWriteScript(t *testing.T) {
	for place, opts := range map[string][]stapsdt.Option{"file": {stapsdt.WithDir(t.TempDir() + "/images")}, "memory": {stapsdt.WithMemfd()}} {
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
				`my-app.v2:named path="/index.html" status=-1 seconds=0x3ff8000000000000 ratio=0xc0000000`,
				`my-app.v2:fields a="a" b=0x3fb999999999999a c="bytes" d=-4 e=5 f=6 ...`,
				`my-app.v2:many(1, -2, 3, -4, "100%`,
				`", 9223372036854775808, ...)`,
			}, tracer.WaitLines(7, testenv.Patience))
			tracer.Stop()
		})
	}
}

// TestWriteScriptNames has bpftrace run a script of names that mean something to it.
func TestWriteScriptNames(t *testing.T) {
	testenv.Long(t, "bpftrace takes its time with a hundred probes")
	names := []string{
		"plain", "dash-dot.v2", `back\slash`, "a;b", "a(b)", "a|b", "a%d", "a@b", "a=b", "a<b>", "it's", "~a", "$1", "#a", "a&&b",
		"a[0]", "!a", "`a`", "grüße", "名前", `end\`, `\`, `\\`, `\a;b\`, `a\nb`, "-", "--help", "1", "0x1", "a+1", "+", "$", "$a", "#", ";", "||",
		"count", "BEGIN", "%", "%s%n", "a%", `%\`, "'", "''", "e\u0301", "🙂", "a.b.", ".", "..",
	}
	for provider, names := range map[string][]string{"it's;$1": names, `end\`: {`end\`, "plain"}} {
		t.Run(provider, func(t *testing.T) { scriptNames(t, provider, names) })
	}
}

func scriptNames(t *testing.T, provider string, names []string) {
	p := newProvider(t, provider)
	probes := make([]*stapsdt.Probe1[int], len(names))
	lines := make([]string, len(names))
	for i, name := range names {
		probes[i] = stapsdt.NewProbe1[int](p, name)
		lines[i] = fmt.Sprintf("%s:%s(%d)", provider, name, i)
	}
	load(t, p)
	var script strings.Builder
	require.NoError(t, p.WriteScript(&script))
	tracer := tracetest.Bpftrace(t, script.String(), "-p", strconv.Itoa(os.Getpid()))
	for i, probe := range probes {
		probe.Fire(i)
	}
	require.Equal(t, lines, tracer.WaitLines(len(lines), testenv.Patience))
	tracer.Stop()
}
