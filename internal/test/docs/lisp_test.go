//go:build linux && (amd64 || arm64)

package docs_test

import (
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

func TestLisp(t *testing.T) {
	needs(t)
	buildCommand(t)
	d := example(t, "lisp")
	d.build(t)
	p := d.start(t, d.command(t, "go run"))
	d.withPID(p, `^process (\d+)$`)
	p.Say(d.command(t, `\(def`))
	p.WaitLine("0", testenv.Patience)

	var counts stapsdts
	counts.follow(t, d, strings.Fields(d.command(t, "stapsdt"))[3], "function__entry", `^ *3  lisp:function__entry  "fib"$`, d.command(t, "stapsdt"))
	var f followers
	f.follow(t, d, `^\d+ 1 3 <- fib \(stdin:1\)$`, d.script(t, "flow"))
	f.follow(t, d, `^@calls\[stdin, fib\]: 3$`, d.script(t, "calls"))
	p.Say(d.command(t, `\(fib`))
	p.Say(d.command(t, `\(none`))
	p.WaitLine("error: no function none", testenv.Patience)
	f[0].WaitLine(" <- main (stdin:3)", testenv.Patience) // bpftrace loses what it has not printed when it is interrupted
	d.requireFlow(t, f.leave(t))
	counts.leave(t)
	d.requireShown(t, counts[0].Lines())
}
