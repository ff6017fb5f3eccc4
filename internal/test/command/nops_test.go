//go:build linux && amd64

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestTwoNops: of two nops side by side, the command attaches to the one that this kernel traces
// at the lowest cost, and reads the same arguments there.
func TestTwoNops(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	gcc := testenv.NeedsTool(t, "gcc", "gcc")
	for _, nop := range image.ArchByName("amd64").Nops {
		t.Run(nop.Name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "twonops")
			var code []string
			for _, b := range []byte(nop.Code) {
				code = append(code, fmt.Sprintf("%#x", b))
			}
			runTool(t, exec.Command(gcc, "-O2", "-Wall", `-DNOP=".byte `+strings.Join(code, ",")+`"`, "-o", path, "testdata/twonops.c"))
			p := tracetest.Command(t, exec.Command(path))
			var first, second uint64
			_, err := fmt.Sscanf(p.WaitLine(" 0x", testenv.Patience), "%v %v", &first, &second)
			require.NoError(t, err)
			p.Expect("ready", testenv.Patience)

			memory := tracetest.Must(os.Open("/proc/" + pid(p) + "/mem"))(t)
			defer memory.Close()
			patched := func(at uint64) bool {
				var b, original [1]byte
				original[0] = 0x90
				if at == second {
					original[0] = nop.Code[0]
				}
				_, err := memory.ReadAt(b[:], int64(at))
				require.NoError(t, err)
				return b != original
			}
			tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-o", "json", "-p", pid(p), "twonops:fired")), t}
			want, other := first, second
			if nop.Name == site.Chosen().Name && nop.Name != "nop1" {
				want, other = second, first
			}
			require.Eventually(t, func() bool { return patched(want) }, testenv.Patience, time.Millisecond)
			require.False(t, patched(other))
			require.Contains(t, runCommand(t, "list", "-p", pid(p)).stdout, "traced now")
			tell(p, "4")
			events := tr.stop()
			require.Equal(t, []any{0., 1., 2., 3.}, args(events, "arg0"))
			require.Equal(t, []any{0., 1., 3., 6.}, args(events, "arg1"))
		})
	}
}
