//go:build linux && (amd64 || arm64)

package kernels

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
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

// The calls of descend that runCallers makes.
const (
	callers = 40
	depth   = 40
)

// runCallers is a program whose function the command traces. It calls it once, or from many goroutines.
func runCallers([]string) {
	fmt.Println("ready")
	tracetest.EachLine(func(line string) {
		var all sync.WaitGroup
		if line == "all" {
			for range callers {
				all.Go(func() { descend(depth) })
			}
		} else {
			descend(0)
		}
		all.Wait()
		fmt.Println("called")
	})
}

// TestCommandFunctions: each call of a function counts once, although the function starts again when the stack has
// grown, and so does each return.
func TestCommandFunctions(t *testing.T) {
	testedBy(t, "gofunctions")
	tracetest.NeedUprobes(t)
	command := commandPath(t)
	program := tracetest.Child(t, "callers")
	program.Expect("ready", testenv.Patience)
	const spec = "go:github.com/go-stapsdt/stapsdt/internal/test/kernels.descend"
	tracer := tracetest.Command(t, exec.Command(command, "trace", "-o", "json", "-p", strconv.Itoa(program.PID()), spec, spec+":return"))
	seen := func() (calls, returns int) {
		for _, line := range tracer.Lines() {
			var event struct{ Probe string }
			if json.Unmarshal([]byte(line), &event) != nil {
				continue // a warning
			}
			if strings.HasSuffix(event.Probe, ":return") {
				returns++
			} else {
				calls++
			}
		}
		return calls, returns
	}
	call := func(line string) {
		program.Say(line)
		program.Expect("called", testenv.Patience)
	}
	await(t, "the command to attach", tracer, func() bool {
		call("one")
		calls, returns := seen()
		return calls > 0 && returns > 0
	})
	const all = callers * (depth + 1)
	call("all")
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
