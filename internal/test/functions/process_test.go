//go:build linux && (amd64 || arm64)

package functions

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestFork: a child that was forked before the tracer came is seen too. PHP forks only with an
// extension, and Go not at all.
func TestFork(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		p.does("fork")
		text, options := p.script(t, "calls")
		pids := regexp.MustCompile(`(?s)/pid == \d+/.*`).ReplaceAllString(text, "{ @by[pid, 0] = count(); }")
		require.NotEqual(t, text, pids)
		tr := tracetest.Bpftrace(t, pids, options...)
		p.does("ready")
		p.Say("wait")
		require.Equal(t, "0", p.Expect("status ", testenv.Patience))
		p.Expect("done wait", testenv.Patience)
		by := tracetest.Table(t, tr.Stop(), "by")
		delete(by, fmt.Sprintf("%d, 0", p.PID()))
		require.Len(t, by, 1)
	}, "python", "perl", "ruby")
}

// TestDetached: the tracer of a program in Perl leaves while the hook looks for a sub's place. Signals come there.
func TestDetached(t *testing.T) {
	testenv.Long(t, "it needs an interpreter and its packages")
	perl := table[slices.IndexFunc(table, func(l language) bool { return l.name == "perl" })]
	perl.needs(t)
	p := perl.start(t, library(t), "perl -IBINDINGS/perl -MFunctions WORK.detached.pl")
	require.Equal(t, "idle", p.Expect("42 ", testenv.Patience))
	require.NoError(t, p.Wait(testenv.Patience))
}

// TestSame: a program in Perl, whose hook is in the place of each sub, does the same while it is
// traced.
func TestSame(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		p.Say("same")
		bare := p.Expect("no Gone::here gone ", testenv.Patience)
		p.Expect("done same", testenv.Patience)
		require.Equal(t, "1 5 3 | 2 | <1 2> | list | scalar | main::called 1 main::same | main::called 1 main::same | 120 | 1,2,3 | 1 2 2 3 | 7 | <> | topic", bare)
		tr := p.traced(t, "calls")
		p.Say("same")
		require.Equal(t, bare, p.Expect("no Gone::here gone ", testenv.Patience))
		p.Expect("done same", testenv.Patience)
		require.Equal(t, 5, of(tracetest.Table(t, tr.Stop(), "calls"), "fact"))
	}, "perl")
}

// TestHostile: the hooks ask the program's classes for nothing, leave its own hooks in place, and keep
// a bounded number of functions. PHP and Lua have no hooks that see objects.
func TestHostile(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		hostile := func() string {
			p.Say("hostile")
			seen := p.Expect("hostile ", testenv.Patience)
			p.Expect("done hostile", testenv.Patience)
			return seen
		}
		untraced := hostile()
		tr := p.traced(t, "calls")
		require.Equal(t, untraced, hostile())
		require.NotEmpty(t, tracetest.Table(t, tr.Stop(), "calls"))
	}, "python", "perl", "ruby")
}

// TestExec: what a program in Perl executes in its place has none of its timers.
func TestExec(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		p.does("replace")
		p.Hangup()
		require.NoError(t, p.Wait(testenv.Patience))
		p.Process = p.language.start(t, library(t), p.language.command).Process // to end as the others
	}, "perl")
}
