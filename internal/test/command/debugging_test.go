//go:build linux && (amd64 || arm64)

package command_test

import (
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestListDebuggingInformation: a file that was separated from a program has its notes, and
// nothing to attach to.
func TestListDebuggingInformation(t *testing.T) {
	t.Parallel()
	_, path := startCSubject(t)
	for name, command := range map[string][]string{
		"objcopy":  {testenv.NeedsTool(t, "objcopy", "binutils"), "--only-keep-debug", path, path + ".debug"},
		"eu-strip": {testenv.NeedsTool(t, "eu-strip", "elfutils"), "-f", path + ".debug", "-o", path + ".stripped", path},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			r := runCommand(t, "list", path+".debug")
			require.NotZero(t, r.status)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, "holds only debugging information")
			require.Contains(t, runCommand(t, "list", path).stdout, "csubject:work")
		})
	}
}
