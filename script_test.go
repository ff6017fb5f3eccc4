//go:build linux && (amd64 || arm64) && !stapsdt_noload

package stapsdt

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWriteScriptUnloaded: a script can be written before there is a process.
func TestWriteScriptUnloaded(t *testing.T) {
	p := NewProvider("50%")
	NewProbe1[int](p, `back\slash`)
	var script strings.Builder
	require.NoError(t, p.WriteScript(&script))
	require.Equal(t, `// Prints the events of 50% in a process. Run it as root:
//
//	bpftrace -p PID FILE

usdt:*:"50%":"back\\\\slash"
{
	printf("50%s:back\\slash(%ld)\n", "%", arg0);
}
`, script.String())
	err := p.WriteScript(failing{})
	require.ErrorIs(t, err, errFull)
	require.EqualError(t, err, "stapsdt: script 50%: full")
	requireOneLine(t, err)
	require.NoError(t, p.WriteScript(asking{p})) // it holds no lock
}

// TestWriteScriptNames: what has names is printed with them.
func TestWriteScriptNames(t *testing.T) {
	p := NewProvider("names")
	NewProbe2[string, int32](p, "request__done", "path", "status")
	NewProbe2[float64, float32](p, "half%")
	NewProbeOf[struct {
		ID      uint64
		Seconds float64
		Object  *object
		Text    []byte
		OK      bool
		Small   int8
		More    string
	}](p, "fields")
	NewProbe0(p, "none")
	var script strings.Builder
	require.NoError(t, p.WriteScript(&script))
	_, clauses, _ := strings.Cut(script.String(), "\n\n")
	require.Equal(t, `usdt:*:names:request__done
{
	printf("names:request__done path=\"%s\" status=%ld\n", str(arg0), arg1);
}

usdt:*:names:"half%"
{
	// arg0 is a float64: these are its bits
	// arg1 is a float32: these are its bits
	printf("names:half%s(0x%lx, 0x%lx)\n", "%", arg0, arg1);
}

usdt:*:names:fields
{
	// of 7 arguments
	// arg1 is a float64: these are its bits
	printf("names:fields id=%lu seconds=0x%lx object=0x%lx text=\"%s\" ok=%lu small=%ld ...\n", arg0, arg1, arg2, str(arg3), arg4, arg5);
}

usdt:*:names:none
{
	printf("names:none()\n");
}
`, clauses)
}

type failing struct{}

var errFull = errors.New("full")

func (failing) Write([]byte) (int, error) { return 0, errFull }

type asking struct{ p *Provider }

func (w asking) Write(b []byte) (int, error) { return len(b), w.p.Unload() }
