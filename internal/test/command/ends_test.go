//go:build linux && (amd64 || arm64)

package command_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestLargeValues: the sums and averages of the kernel are right for the largest numbers, whose sums have more than 64 bits, and they are shown.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	const fires = 50
	type row struct {
		Count   int64
		Sum     json.Number
		Average float64
	}
	for value, first := range map[string]string{ // of which the i-th is that of the first, and i milliseconds
		"elapsed + 2562047h47m16s": "9223372036000000000", "elapsed - 2562047h47m16s": "-9223372036000000000",
	} {
		start, _ := new(big.Int).SetString(first, 10)
		want := new(big.Int)
		for i := range int64(fires) {
			want.Add(want, start).Add(want, big.NewInt(i*int64(time.Millisecond)))
		}
		exact, _ := new(big.Rat).SetFrac(want, big.NewInt(fires)).Float64()
		for _, by := range [][]string{nil, {"--by", "cached"}} {
			output := func(args ...string) string {
				p := startGoSubject(t)
				tr := startTrace(t, p, slices.Concat([]string{args[0], "-p", pid(p), "subject:request__done"}, args[1:], by)...)
				tell(p, fmt.Sprintf("fire %d", fires))
				tr.interrupt()
				return strings.Join(tr.Lines(), "\n")
			}
			got := new(big.Int)
			for _, r := range lines[row](t, output("count", "--sum", value, "-o", "json")) {
				sum, ok := new(big.Int).SetString(r.Sum.String(), 10)
				require.True(t, ok, r.Sum)
				got.Add(got, sum)
			}
			require.Equal(t, want.String(), got.String(), value)
			count := int64(0)
			for _, r := range lines[row](t, output("hist", value, "-o", "json")) {
				require.InEpsilon(t, exact, r.Average, 1e-11, value) // the rows of --by differ by a millisecond
				count += r.Count
			}
			require.EqualValues(t, fires, count)
			if by == nil {
				require.Contains(t, output("hist", value), "average "+strings.TrimRight(first, "0123456789")+"2560000h", value)
			}
		}
	}
}

// TestTimeNamespace: events have the time of day, although the kernel's clock is not that of the tracer's time namespace.
func TestTimeNamespace(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	if _, err := os.Stat("/proc/self/timens_offsets"); err != nil {
		t.Skip("this kernel has no time namespaces")
	}
	for _, offset := range []string{"86400", "-100"} {
		p, _ := startCSubject(t)
		tr := &tracer{tracetest.Command(t, exec.Command(unshare, "--time", "--monotonic", offset, "--fork", stapsdt(t), "trace", "-o", "json", "-p", pid(p), "csubject:other", "-n", "3")), t}
		require.Eventually(t, func() bool { return isTraced(t, p) }, testenv.Patience, 5*time.Millisecond)
		before := time.Now()
		tell(p, "fire 3")
		events := tr.waitForEnd()
		require.Len(t, events, 3)
		for _, e := range events {
			require.WithinRange(t, e.Time, before.Add(-time.Second), time.Now().Add(time.Second), offset)
		}
	}
}
