//go:build linux && (amd64 || arm64)

package docs_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const flow = "bpftrace .*/flow"

// ofFile is how a document attaches to the file of the probes.
const ofFile = "file=|bpftrace -e"

// cgo reports whether the go command uses cgo, in the test's environment.
func cgo(t *testing.T) bool {
	out, err := exec.Command("go", "env", "CGO_ENABLED").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out)) == "1"
}

func TestLua(t *testing.T) {
	needs(t)
	d := module(t, "lua")
	d.run(t, d.command(t, "go build"))
	p := d.start(t, d.command(t, "./lua"))
	d.replace = strings.NewReplacer("PID", strconv.Itoa(p.PID()))
	p.Say("idle") // it prints nothing else of its own accord
	p.WaitLine("idle", patience)

	var f followers
	f.follow(t, d, ` 1 <- flow \(testdata/work.lua:0\)$`, d.command(t, flow))
	if cgo(t) {
		f.follow(t, d, `^@calls\[outer\]: 1$`, d.command(t, "bpftrace .*/time"))
		f.followKernel(t, d, `^@samples\[spin, outer, time\]: [0-9]+$`, d.command(t, "bpftrace -p .*/hot"))
		f.follow(t, d, `^@samples\[spin, outer, time\]: [0-9]+$`, d.command(t, ofFile))
		f.followKernel(t, d, `^@faults\[fill\]: [0-9]{3,}$`, d.command(t, "bpftrace .*/faults"))
		f.follow(t, d, `^@waited\[critical\]: [0-9]{5,}$`, d.command(t, "bpftrace .*/locks"))
		f.follow(t, d, `^@bytes\[allocate\]: 10485760$`, d.command(t, "bpftrace .*/malloc"))
		f.follow(t, d, `^@lines\[testdata/work.lua, [0-9]+\]: [0-9]+$`, d.command(t, "bpftrace .*/lines"))
	} else {
		f.follow(t, d, `^@bytes\[allocate\]: 1[0-9]{7}$`, d.command(t, "bpftrace .*/mmap"))
	}
	for _, command := range []string{"ready", "flow", "memory", "lock", "time"} {
		p.Say(command)
		p.Expect("done "+command, patience)
	}
	d.requireFlow(t, f.leave(t))
	t.Run("go test -bench", func(t *testing.T) { d.run(t, d.command(t, "go test .*bench")+" -benchtime 10x") })
}

func TestWasm(t *testing.T) {
	needs(t)
	d := module(t, "wasm")
	t.Run("go test -bench", func(t *testing.T) { d.run(t, d.command(t, "go test .*bench")+" -benchtime 10x") })
	d.build(t)
	command := d.command(t, "go run")
	p := d.start(t, command)
	in := p.WaitMatch(regexp.MustCompile(`^process (\d+) has its probes in (.*)`), patience)
	d.replace = strings.NewReplacer("PID", in[1], "FILE", in[2])

	var f followers
	f.follow(t, d, ` 1 <- divide \(guest, function 3\)$`, d.command(t, flow))
	f.follow(t, d, `^@calls\[fib\]: 3$`, d.command(t, "bpftrace .*/time"))
	f.follow(t, d, `^@\[fib\]: 6$`, d.command(t, "bpftrace -e"))
	p.Say("fib 2")
	p.WaitMatch(regexp.MustCompile(`^= \[1\]$`), patience)
	p.Say("divide 1 0")
	p.WaitLine("integer divide by zero", patience)
	out := d.run(t, "echo fib 2 | "+strings.TrimSuffix(command, " -trace"))
	require.Contains(t, strings.Split(out, "\n"), "= [1]")
	d.requireFlow(t, f.leave(t))
}
