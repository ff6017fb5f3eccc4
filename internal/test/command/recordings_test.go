//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdtprobes "github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// TestFromSpeed: a processor reads at least five million events per second into a histogram and writes a
// million as JSON. What counts is its time, whatever else the machine does.
func TestFromSpeed(t *testing.T) {
	testenv.Measures(t, "processor time")
	const events = 2_000_000
	p := sdtprobes.NewProvider("speed")
	defer func() { require.NoError(t, p.Close()) }()
	probe := sdtprobes.NewProbe2[int, int](p, "event", "took", "n")
	r := tracetest.Must(proberec.Create(filepath.Join(t.TempDir(), "speed"), 128<<20, p))(t)
	r.Start()
	for i := range events {
		probe.Fire(i%1000, i)
	}
	require.NoError(t, r.Close())
	require.Contains(t, runCommand(t, "count", "--from", r.Path(), "speed:*", "-o", "json").stdout, fmt.Sprintf(`"count":%d`, events))
	for _, c := range []struct {
		args []string
		most float64 // nanoseconds
	}{
		{[]string{"hist", "speed:*", "took"}, 200},
		{[]string{"trace", "-o", "json"}, 1000},
	} {
		least := math.Inf(1)
		for range 3 {
			cmd := exec.Command(stapsdt(t), append(c.args, "--from", r.Path())...)
			require.NoError(t, cmd.Run())
			least = min(least, float64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())/events)
		}
		testenv.Figure(t, c.args[0], least, c.most, "ns of a processor for an event")
	}
}

// TestFromFollow: with --follow, trace shows what a living process writes, and says how many events it was
// too slow for. When the process has ended, it says so, and shows what the next one writes to the same path.
func TestFromFollow(t *testing.T) {
	t.Parallel()
	p := sdtprobes.NewProvider("followed")
	defer func() { require.NoError(t, p.Close()) }()
	request := sdtprobes.NewProbe1[string](p, "request", "path")
	r := tracetest.Must(proberec.Create(filepath.Join(t.TempDir(), "followed"), 1<<20, p))(t)
	r.Start()
	fire := func(i int) { request.Fire(fmt.Sprint("/", i)) }
	fire(0)
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-o", "json", "--from", r.Path(), "--follow")), t}
	tr.WaitLine(`"path":"/0"`, testenv.Patience)
	for i := range 100 {
		fire(1 + i)
	}
	tr.WaitLine(`"path":"/100"`, testenv.Patience)
	fire(101)
	require.NoError(t, r.Close())
	tr.WaitSaid(regexp.MustCompile(fmt.Sprintf("stapsdt: the recording %s of process %d has ended", r.Path(), os.Getpid())), testenv.Patience)
	next := tracetest.Must(proberec.Create(r.Path(), 1<<20, p))(t)
	next.Start()
	tr.WaitSaid(regexp.MustCompile(fmt.Sprintf("stapsdt: %s is another recording now, of process %d", r.Path(), os.Getpid())), testenv.Patience)
	fire(102)
	tr.WaitLine(`"path":"/102"`, testenv.Patience)
	require.NoError(t, next.Close())
	interrupt(t, tr)
	var seen []any
	for _, line := range tr.Lines() {
		if strings.HasPrefix(line, "{") {
			seen = append(seen, args(lines[event](t, line), "path")...)
		}
	}
	require.Len(t, seen, 103)
	require.Equal(t, []any{"/100", "/101", "/102"}, seen[100:])
}
