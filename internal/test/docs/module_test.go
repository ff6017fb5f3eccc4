//go:build linux && (amd64 || arm64)

package docs_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/stretchr/testify/require"
)

const flow = `\.\./scripts/trace.sh \w+ flow`

// script is the command that runs one of the scripts for every language.
func (d *document) script(t *testing.T, name string) string {
	return d.command(t, `\.\./scripts/trace.sh \w+ `+name)
}

func TestLua(t *testing.T) {
	needs(t)
	d := module(t, "lua")
	d.run(t, d.command(t, "go build"))
	p := d.start(t, d.command(t, "./lua"))
	d.replace = strings.NewReplacer("PID", strconv.Itoa(p.PID()))
	p.Say("idle") // it prints nothing else of its own accord
	p.WaitLine("idle", testenv.Patience)

	var f followers
	f.follow(t, d, ` 1 <- flow \(testdata/work.lua:0\)$`, d.command(t, flow))
	f.follow(t, d, `^@calls\[testdata/work.lua, tail\]: 1$`, d.script(t, "calls"))
	f.follow(t, d, `^@inclusive\[testdata/work.lua, outer\]: [0-9]{6,}$`, d.script(t, "time"))
	f.follow(t, d, `^@samples\[spin, outer, time\]: [0-9]+$`, d.script(t, "hot"))
	f.follow(t, d, `^@bytes\[testdata/work.lua, allocate\]: [1-9][0-9]{6,}$`, d.script(t, "malloc"))
	f.follow(t, d, `^@faults\[testdata/work.lua, allocate\]: [0-9]{3,}$`, d.script(t, "faults"))
	f.follow(t, d, `^@waited\[testdata/work.lua, critical\]: [0-9]{5,}$`, d.script(t, "locks"))
	f.follow(t, d, `^@lines\[testdata/work.lua, [0-9]+\]: [0-9]+$`, d.command(t, "bpftrace .*/lines"))
	for _, command := range []string{"ready", "flow", "memory", "lock", "time"} {
		p.Say(command)
		p.Expect("done "+command, testenv.Patience)
	}
	d.requireFlow(t, f.leave(t))
	t.Run("go test -bench", func(t *testing.T) { d.run(t, d.command(t, "go test .*bench")+" -benchtime 10x") })
}

func TestWasm(t *testing.T) {
	needs(t)
	d := module(t, "wasm")
	t.Run("go test -bench", func(t *testing.T) { d.run(t, d.command(t, "go test .*bench")+" -benchtime 10x") })
	d.run(t, d.command(t, "go build"))
	command := d.command(t, "./wasm")
	p := d.start(t, command)
	in := p.WaitMatch(regexp.MustCompile(`^process (\d+) has its probes in (.*)`), testenv.Patience)
	d.replace = strings.NewReplacer("PID", in[1], "FILE", in[2])

	var f followers
	f.follow(t, d, ` 1 <- divide \(guest:5\)$`, d.command(t, flow))
	f.follow(t, d, `^@calls\[guest, fib\]: 3$`, d.script(t, "calls"))
	f.follow(t, d, `^@inclusive\[guest, divide\]: [0-9]+$`, d.script(t, "time"))
	f.follow(t, d, `^@bytes\[guest, allocate\]: [1-9][0-9]{6,}$`, d.script(t, "malloc"))
	f.follow(t, d, `^@faults\[guest, allocate\]: [0-9]{3,}$`, d.script(t, "faults"))
	f.follow(t, d, `^@waited\[guest, critical\]: [0-9]{5,}$`, d.script(t, "locks"))
	f.follow(t, d, `^@\[fib\]: 6$`, d.command(t, "bpftrace -e"))
	p.Say("fib 2")
	p.WaitMatch(regexp.MustCompile(`^= \[1\]$`), testenv.Patience)
	p.Say("divide 1 0")
	p.WaitLine("integer divide by zero", testenv.Patience)
	p.Say("buffer 10485760")
	p.WaitMatch(regexp.MustCompile(`^= \[10485760\]$`), testenv.Patience)
	p.Say("lock 500")
	p.WaitMatch(regexp.MustCompile(`^= \[1\]$`), testenv.Patience)
	out := d.run(t, "echo fib 2 | "+strings.TrimSuffix(command, " -trace"))
	require.Contains(t, strings.Split(out, "\n"), "= [1]")
	d.requireFlow(t, f.leave(t))
}
