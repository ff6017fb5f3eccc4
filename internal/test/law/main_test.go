//go:build linux && (amd64 || arm64)

package law

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	tracetest.BuildMain(m)
}

// Programs are static, as services in containers are, but for one with the race detector,
// which needs cgo.
var (
	static = []string{"CGO_ENABLED=0"}
	raced  = []string{"CGO_ENABLED=1", "GOFLAGS=-race"}
)

// program is a holder.
type program struct {
	*tracetest.Process
	t testing.TB
}

// holder returns a command that runs the holder of some kinds of operations. Its image is in
// a directory of the test.
func holder(t testing.TB, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(tracetest.Build(t, "holder", env...), args...)
	// A goroutine's first stack would depend on what others needed before.
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir(), "GODEBUG=adaptivestackstart=0", fmt.Sprint("GOMAXPROCS=", min(processors, runtime.NumCPU())))
	return cmd
}

func start(t testing.TB, cmd *exec.Cmd) *program {
	p := &program{tracetest.Command(t, cmd), t}
	p.Expect("ready", testenv.Patience)
	return p
}

// does tells the program something, and returns the rest of its answer.
func (p *program) does(command, answer string) string {
	p.t.Helper()
	p.Say(command)
	return p.Expect(answer, testenv.Patience)
}

// asks is does for an answer that is an object.
func asks[T any](p *program, command, answer string) (of T) {
	p.t.Helper()
	require.NoError(p.t, json.Unmarshal([]byte(p.does(command, answer)), &of))
	return of
}

// right requires that all operations had the results that they should have.
func (p *program) right() {
	p.t.Helper()
	wrong := slices.DeleteFunc(p.Lines(), func(line string) bool { return !strings.HasPrefix(line, "wrong ") })
	require.Empty(p.t, wrong[:min(len(wrong), 10)])
}

// ends ends the program, which must have had no fault.
func (p *program) ends() {
	p.t.Helper()
	p.right()
	p.Hangup()
	require.NoError(p.t, p.Wait(testenv.Patience))
}

func (p *program) pid() string { return strconv.Itoa(p.PID()) }

// numbers are what the program takes of the machine: see the holder's.
type numbers struct {
	Threads, Goroutines, Descriptors int
	Heap, Stacks                     int
}

func (p *program) measures() numbers {
	p.t.Helper()
	return asks[numbers](p, "numbers", "numbers ")
}
