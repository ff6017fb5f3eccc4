//go:build linux && amd64

package gofunctions

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// moving is a program whose goroutines change their threads within a function, from when it is told to.
const moving = `package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
)

//go:noinline
func pause(n int) int {
	runtime.Gosched()
	return n + 1
}

func main() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				pause(12345)
			}
		})
	}
	all.Wait()
	fmt.Println("done")
}
`

// TestCompared: what docs/compared.md says that bpftrace does with functions of Go.
func TestCompared(t *testing.T) {
	testenv.Long(t, "another tracer's faults do not come and go with this repository's changes")
	testenv.NeedsRoot(t)
	path := build(t, moving, nil)

	// run runs the program while bpftrace traces it, and returns what both have printed.
	run := func(t *testing.T, script string) (traced string, said []byte, err error) {
		program := exec.Command(path)
		stdin, err := program.StdinPipe()
		require.NoError(t, err)
		var out bytes.Buffer
		program.Stdout, program.Stderr = &out, &out
		require.NoError(t, program.Start())
		defer program.Process.Kill()
		b := tracetest.Bpftrace(t, fmt.Sprintf(script, path))
		_, err = io.WriteString(stdin, "\n")
		require.NoError(t, err)
		err = program.Wait()
		return b.Stop(), out.Bytes(), err
	}
	t.Run("arguments", func(t *testing.T) {
		traced, said, err := run(t, `uprobe:%s:"main.pause" { @[args->n] = count(); }`)
		require.NoError(t, err, "%s", said)
		require.Regexp(t, `@\[-?\d+\]: \d+`, traced, "values are shown")
		require.NotContains(t, traced, "@[12345]", "they are right: docs/compared.md says otherwise")
	})
	t.Run("returns", func(t *testing.T) {
		_, said, err := run(t, `uretprobe:%s:"main.pause" { @ = count(); }`)
		require.Error(t, err, "the program has not crashed: %s", said)
		require.Regexp(t, regexp.MustCompile("SIG(ILL|SEGV|TRAP)|fatal error"), string(said))
	})
	t.Run("stripped", func(t *testing.T) {
		stripped := build(t, moving, nil, "-ldflags=-s -w")
		words := append(tracetest.BpftraceCommand(t), "-e", fmt.Sprintf(`uprobe:%s:"main.pause" { exit(); }`, stripped))
		says, err := exec.Command(words[0], words[1:]...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(says), "No probes to attach")
		out, err := exec.Command(stapsdt(t), "list", "go:main.pause", stripped).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "main.pause")
	})
}
