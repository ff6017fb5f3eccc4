//go:build linux && (amd64 || arm64)

package docs_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/languages"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// withPID puts the process of the example, or of its go run, in place of PID. The pattern
// matches what the program prints, with its number as the group.
func (d *document) withPID(p *tracetest.Process, pattern string) {
	pid := p.WaitMatch(regexp.MustCompile(pattern), testenv.Patience)[1]
	d.replace = strings.NewReplacer("PID", pid)
}

func TestHello(t *testing.T) {
	needs(t)
	d := example(t, "hello")
	d.build(t)
	p := d.start(t, d.command(t, "go run"))
	// The tracers run the commands that the program prints, because those name this run.
	p.WaitLine("bpftrace -e", testenv.Patience)
	d.requireShown(t, p.Lines())
	for _, option := range []string{"-p", "-e"} {
		t.Run("bpftrace "+option, func(t *testing.T) {
			command := p.WaitLine("bpftrace "+option, testenv.Patience)
			seen := d.sees(t, `^hello, tracer [0-9]+ [0-9]+$`, command)
			d.requireShown(t, seen)
		})
	}
}

// member returns the process of that name in a program's group: what go run or a pipe
// started.
func member(t *testing.T, p *tracetest.Process, name string) (pid string) {
	t.Helper()
	require.Eventually(t, func() bool {
		out, err := exec.Command("pgrep", "-x", "-g", strconv.Itoa(p.PID()), name).Output()
		pid = strings.TrimSpace(string(out))
		return err == nil
	}, testenv.Patience, 100*time.Millisecond)
	return pid
}

func TestTranslator(t *testing.T) {
	needs(t)
	d := example(t, "translator")
	d.build(t)
	p := d.start(t, "env STAPSDT_DIR="+t.TempDir()+"/images "+d.command(t, "go run"))
	path := p.WaitMatch(regexp.MustCompile(`^the probes are in (/.*)`), testenv.Patience)[1]
	declared := d.run(t, strings.NewReplacer("bpftrace", strings.Join(tracetest.BpftraceCommand(t), " "), "FILE", path).Replace(d.command(t, "bpftrace -lv"))+" 2>/dev/null")
	d.requireShown(t, strings.Split(strings.Replace(declared, path, "FILE", 1), "\n"))
	d.replace = strings.NewReplacer("FILE", path)
	d.requireShown(t, d.sees(t, `^GET /item/[0-9]+ 404 [0-9]+ ms$`, d.command(t, "bpftrace -e")))
}

func TestC(t *testing.T) {
	needs(t, "make", "gcc")
	d := example(t, "c")
	d.run(t, d.command(t, "make"))
	p := startGroup(t, d.dir, d.command(t, "yes"))
	d.replace = strings.NewReplacer("$(pgrep -nx lines)", member(t, p, "lines"))
	var lines []string
	// Events come all the time, and are shown at the end.
	for long := time.Second; ; long *= 4 {
		tr := d.trace(t, d.command(t, "bpftrace"))
		time.Sleep(long)
		tr.interrupt()
		lines = tr.finish()
		if long > testenv.Patience/4 || slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "[4, 8)") }) {
			break
		}
	}
	matching(t, `^\[4, 8\)`, lines)
	d.requireShown(t, matching(t, `^@length|^\[`, lines))
	p.WaitMatch(regexp.MustCompile("^"+d.command(t, "[0-9]+ [0-9]+$")+"$"), 3*testenv.Patience)
}

// TestLanguages: the README of each binding of the C library.
func TestLanguages(t *testing.T) {
	needs(t, "make", "gcc", "python3", "perl", "ruby", "node=nodejs", "npm", "php=php-cli", "javac=default-jdk-headless")
	names := []string{"python", "perl", "ruby", "node", "php", "java"}
	bindings := languages.Copy(t, names...)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			d := read(t, bindings+"/"+name)
			d.run(t, d.command(t, "make|npm"))
			p := d.start(t, "env "+d.command(t, "LD_LIBRARY_PATH"))
			d.withPID(p, `^\D*(\d+)`)
			d.requireShown(t, d.sees(t, `^task [0-9]+ [0-9]+ us$`, d.command(t, "bpftrace")))
		})
	}
}

func TestLisp(t *testing.T) {
	needs(t)
	buildCommand(t)
	d := example(t, "lisp")
	d.build(t)
	p := d.start(t, d.command(t, "go run"))
	d.withPID(p, `^process (\d+)$`)
	p.Say(d.command(t, `\(def`))
	p.WaitLine("0", testenv.Patience)

	var counts followers
	counts.watch(t, d, strings.Fields(d.command(t, "stapsdt"))[3], "function__entry", `^ *3  lisp:function__entry  "fib"$`, d.command(t, "stapsdt"))
	var f followers
	f.follow(t, d, `^\d+ 1 3 <- fib \(stdin:1\)$`, d.script(t, "flow"))
	f.follow(t, d, `^@calls\[stdin, fib\]: 3$`, d.script(t, "calls"))
	p.Say(d.command(t, `\(fib`))
	p.Say(d.command(t, `\(none`))
	p.WaitLine("error: no function none", testenv.Patience)
	f[0].WaitLine(" <- main (stdin:3)", testenv.Patience) // bpftrace loses what it has not printed when it is interrupted
	d.requireFlow(t, f.leave(t))
	d.requireShown(t, counts.leave(t))
}

// TestGuideGenerate follows the section of command.md on generate: what it prints of a file in D
// is what is generated, and it is a program's.
func TestGuideGenerate(t *testing.T) {
	g := readGuide(t, "command.md")
	buildCommand(t)
	g.write(t, "myapp.d", g.code(t, "provider myapp {"))
	g.write(t, "bad.d", g.code(t, "provider bad {"))
	exact := func(c console) {
		require.Equal(t, nonempty(c.output), nonempty(strings.Split(g.run(t, c.command), "\n")), c.command)
	}

	generate := g.find(t, "$ stapsdt generate myapp.d").consoles()
	g.run(t, generate[0].command)
	exact(generate[1])
	refused := g.find(t, "# stapsdt generate bad.d").consoles()[0]
	refused.command = "! " + refused.command + " 2>&1"
	exact(refused)
	g.run(t, "! test -e bad_probes.go")

	g.write(t, "main.go", "package main\n"+g.code(t, "go:generate")+`
func main() {
	if err := MyappProvider.Load(); err != nil {
		panic(err)
	}
	RequestDone.Fire("/", 200, 512)
}
`)
	g.run(t, "rm myapp_probes.go")
	g.inModule(t, "app", "go generate; STAPSDT_DIR=$PWD/images go run .")
	g.run(t, "ls images/myapp-*.so")
}

// nonempty returns the lines that have text, without what surrounds it.
func nonempty(lines []string) (all []string) {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
