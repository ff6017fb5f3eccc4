//go:build linux && (amd64 || arm64)

package docs_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// freeAddress returns an address that nothing listens on, because other programs may use the
// port that a document names. The host is one that no other program takes a port of by chance.
func freeAddress(t *testing.T) string {
	t.Helper()
	pid := os.Getpid()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+pid>>16, pid>>8&255, pid&255))
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// write writes a file into the directory.
func (d *document) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(d.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// shop builds what a guide builds in $bin, and returns that directory and the last command, which starts the shop there.
func (g *guide) shop(t *testing.T) (bin, start string) {
	t.Helper()
	bin = t.TempDir()
	t.Setenv("bin", bin)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, c := range g.find(t, "go build -C examples/http").consoles() {
		start = c.command
		if strings.HasPrefix(start, "go build ") {
			(&document{dir: repository(t)}).run(t, start)
		}
	}
	return bin, start
}

// served is the address at which a document's program serves.
var served = regexp.MustCompile(`localhost:\d+`)

// server writes a program that serves into the directory. It returns the address that the program has instead.
func (d *document) server(t *testing.T, code string) (address string) {
	t.Helper()
	require.Regexp(t, served, code)
	address = freeAddress(t)
	d.write(t, "main.go", served.ReplaceAllString(code, address))
	return address
}

// inModule makes a module of the directory, and runs a command in it. The module needs this one and what this one needs,
// which was downloaded for this test: nothing else is.
func (d *document) inModule(t *testing.T, path, command string) {
	t.Helper()
	const this = "github.com/go-stapsdt/stapsdt"
	d.run(t, "go mod init "+path+"; go mod edit -require "+this+"@v0.0.0 -replace "+this+"="+repository(t)+"; cp "+repository(t)+"/go.sum .; "+
		"export GOPROXY=off GOFLAGS=-mod=mod GOWORK=off; "+command)
}

// launch starts a program of the directory that no other test's probes can be taken for.
func (d *document) launch(t *testing.T, name string) *tracetest.Process {
	t.Helper()
	return d.start(t, "env STAPSDT_DIR="+t.TempDir()+"/images ./"+name)
}

func TestMain(m *testing.M) {
	tracetest.TracefsMain()
	tracetest.BuildMain(m)
}

// buildCommand builds stapsdt, which the commands of a document then find.
func buildCommand(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(tracetest.Stapsdt(t), dir+"/stapsdt"))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

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
