//go:build linux && (amd64 || arm64)

package command_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// runScript returns the script that the command prints.
func runScript(t *testing.T, args ...string) string {
	t.Helper()
	r := runCommand(t, append([]string{"script"}, args...)...)
	require.Zero(t, r.status)
	return r.stdout
}

// TestScriptBpftraceC: semaphores, and an argument that the file does not call a text. What bpftrace would read wrongly is not in the script.
func TestScriptBpftraceC(t *testing.T) {
	t.Parallel()
	p, path := startCSubject(t)
	r := runCommand(t, "script", path+":csubject:text", "--str", "nothing")
	require.Equal(t, 2, r.status)
	require.Equal(t, "stapsdt: --str nothing: no probe has such an argument\n", r.stderr)
	script := runScript(t, path+":csubject:text", path+":csubject:other", "--str", "arg0")
	require.Contains(t, script, `printf("%d %s csubject:text arg0=\"%s\"\n", pid, comm, str(arg0));`)
	tr := tracetest.Bpftrace(t, script)
	tell(p, "fire 2")
	for _, line := range tr.WaitLines(2, testenv.Patience) {
		require.Equal(t, pid(p)+" csubject csubject:other", line)
	}
	tr.Stop()

	r = runCommand(t, "script", path+":csubject:*")
	require.Zero(t, r.status)
	require.Regexp(t, `^stapsdt: csubject:work in .*: bpftrace does not understand the operand 8@\S*large\S*\n$`, r.stderr)
	require.NotContains(t, r.stdout, "csubject:work")
	require.Contains(t, r.stdout, "usdt:"+path+":csubject:other\n")
}

// TestScript: the names, the types and the values of a program in Go, whose image is in a file or in
// memory. Other processes are not shown.
func TestScript(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"file", "memfd"} {
		p, other := startGoSubject(t, where), startGoSubject(t, where)
		tr := tracetest.Bpftrace(t, runScript(t, "-p", pid(p), "subject:[rt]*"))
		tell(other, "fire 1")
		tell(p, "fire 2")
		tell(p, "storm 1 1")
		var got []string
		for _, line := range tr.WaitLines(3, testenv.Patience) {
			number, rest, _ := strings.Cut(line, " ")
			require.Equal(t, pid(p), number, line)
			_, event, _ := strings.Cut(rest, " ")
			got = append(got, event)
		}
		slices.Sort(got) // lines of different processors come in no certain order
		require.Equal(t, []string{
			`subject:request__done path="/item/0" status=-3 elapsed=0ns cached=true`,
			`subject:request__done path="/item/1" status=-2 elapsed=1000000ns cached=false`,
			`subject:tick arg0=0 arg1=0`,
		}, got)
		tr.Stop()
	}
}
