//go:build linux && (amd64 || arm64)

package kernels

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// descend calls itself, so that the stack of a new goroutine grows.
//
//go:noinline
func descend(depth int) int {
	var space [512]byte
	if depth == 0 {
		return 0
	}
	space[depth] = 1
	return descend(depth-1) + int(space[depth])
}

// The goroutines that call descend at once, and how deep.
const (
	callers = 40
	depth   = 40
)

// TestCommandFunctions: each call of a function counts once, although the function starts again when the stack has
// grown, and so does each return.
func TestCommandFunctions(t *testing.T) {
	testedBy(t, "gofunctions")
	server := startServer(t)
	const spec = "go:github.com/go-stapsdt/stapsdt/internal/test/kernels.descend"
	tracer := tracetest.Command(t, exec.Command(tracetest.Stapsdt(t), "trace", "-o", "json", "-p", strconv.Itoa(server.PID()), spec, spec+":return"))
	seen := func() (calls, returns int) {
		out := strings.Join(tracer.Lines(), "\n")
		return strings.Count(out, `descend"`), strings.Count(out, `descend:return"`)
	}
	await(t, "the command to attach", tracer, func() bool {
		enabled(server, "call")
		calls, returns := seen()
		return calls > 0 && returns > 0
	})
	const all = callers * (depth + 1)
	enabled(server, "calls")
	await(t, "all events", tracer, func() bool {
		_, returns := seen()
		return returns >= all
	})
	tracer.Signal(os.Interrupt)
	require.NoError(t, tracer.Wait(testenv.Patience))
	// Those of single calls before the command was attached to both are few, and less than one of all.
	calls, returns := seen()
	single := returns - all
	require.Less(t, single, all)
	require.InDelta(t, all+single, calls, 1, "%d calls and %d returns", calls, returns)
}

// The threads that fire pairs, and how many each.
const (
	pairThreads = 8
	pairs       = 10_000
)

// preemptions calls f with each way to preempt that the kernel of a guest can be told, or once.
func preemptions(t *testing.T, f func(t *testing.T)) {
	const modes = "/sys/kernel/debug/sched/preempt"
	names, err := os.ReadFile(modes) // such as "none voluntary (full) lazy"
	if err != nil || os.Getppid() != 1 {
		f(t)
		return
	}
	for _, name := range strings.Fields(strings.NewReplacer("(", "", ")", "").Replace(string(names))) {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(modes, []byte(name), 0o600))
			f(t)
		})
	}
}

// TestPairs: while threads preempt each other on one processor, each event has its own text. From Linux 6.13 on, the programs of the
// command have a stack of the processor.
func TestPairs(t *testing.T) {
	testedBy(t, "command")
	preemptions(t, func(t *testing.T) {
		for _, args := range [][]string{
			{"count", "guestpairs:fired", "--by", "number,text"},
			{"count", "guestpairs:fired", "--by", "number,text", "-w", `text != "other"`},
			{"hist", "guestpairs:fired", "number", "--by", "number,text"},
			{"latency", "guestpairs:fired", "guestpairs:done", "--key", "thread", "--by", "number,text"},
			{"trace", "guestpairs:fired", "-w", `text != "other"`},
		} {
			t.Run(args[0], func(t *testing.T) {
				server := startServer(t)
				command := tracetest.Command(t, exec.Command(tracetest.Stapsdt(t), append(args, "-v", "-o", "json", "-p", strconv.Itoa(server.PID()))...))
				command.WaitSaid(regexp.MustCompile(`probes? of 1 process`), starting) // where each site is attached to on its own, one is enabled before the others
				require.True(t, enabled(server, "pairs"))
				command.Signal(os.Interrupt)
				require.NoError(t, command.Wait(testenv.Patience))
				seen := 0
				for _, line := range command.Lines() {
					var r row
					require.NoError(t, json.Unmarshal([]byte(line), &r), line)
					values, count := r.By, r.Count
					if r.Args != nil {
						values, count = r.Args, 1
					}
					if values != nil { // the last line of latency has what is not paired
						require.Equal(t, fmt.Sprint("text of ", values["number"]), values["text"], line)
					}
					seen += count
				}
				if args[0] != "trace" { // which may lose events, and says so
					require.Equal(t, pairThreads*pairs, seen)
				}
				require.NotZero(t, seen)
			})
		}
		t.Run("export", exportPairs)
	})
}

// pairRules count events and measure operations by the number and its text.
const pairRules = `
metrics:
  - {name: fired_total, probe: "guestpairs:fired", counter: 1, where: 'text != "other"', by: [number, text], labels: []}
  - {name: took_seconds, start: "guestpairs:fired", end: "guestpairs:done", key: thread, duration: true, unit: seconds, by: [number, text], labels: []}
`

func exportPairs(t *testing.T) {
	server := startServer(t)
	exporter := startExporter(t, pairRules, 1+2)
	require.True(t, enabled(server, "pairs"))
	seen := map[string]int{}
	for _, line := range scrape(t, exporter) {
		part := regexp.MustCompile(`^(fired_total|took_seconds_count)\{.*\bnumber="(\d+)".*\btext="([^"]*)"\} (\d+)$`).FindStringSubmatch(line)
		if part == nil {
			continue
		}
		require.Equal(t, "text of "+part[2], part[3], line)
		seen[part[1]] += tracetest.Must(strconv.Atoi(part[4]))(t)
	}
	require.Equal(t, map[string]int{"fired_total": pairThreads * pairs, "took_seconds_count": pairThreads * pairs}, seen)
}
