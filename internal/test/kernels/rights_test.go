//go:build linux && (amd64 || arm64)

package kernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCommandRights: with the capabilities of docs/command.md the command attaches, or says that
// it needs CAP_SYS_ADMIN. Kernels before 6.6 with the repair of CVE-2025-38466 demand it.
func TestCommandRights(t *testing.T) {
	testedBy(t, "command")
	server := startServer(t)
	command := filepath.Join(t.TempDir(), "stapsdt")
	content, err := os.ReadFile(commandPath(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(command, content, 0o755))
	for path := filepath.Dir(command); path != filepath.Clean(os.TempDir()); path = filepath.Dir(path) {
		require.NoError(t, os.Chmod(path, 0o755))
	}
	capabilities := []uintptr{
		unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_DAC_READ_SEARCH,
	}
	// Before Linux 5.11. Root of a sandbox, with a newer kernel, may lack it.
	if held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0); err == nil && held == 1 {
		capabilities = append(capabilities, unix.CAP_SYS_RESOURCE)
	}
	says := func(capabilities []uintptr, args ...string) (status int, said string) {
		c := exec.Command(command, append(args, "-p", strconv.Itoa(server.PID()), "guestserver:request__done")...)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		c.SysProcAttr = &syscall.SysProcAttr{
			Credential:  &syscall.Credential{Uid: 65534, Gid: 65534},
			AmbientCaps: capabilities,
		}
		if err := c.Run(); err != nil {
			require.IsType(t, new(exec.ExitError), err)
		}
		return c.ProcessState.ExitCode(), out.String()
	}
	const refusal = "stapsdt: attaching to probes on this kernel needs CAP_SYS_ADMIN; "
	status, said := says(capabilities, "trace", "-d", "10ms")
	_, diagnosis := says(capabilities, "doctor")
	if status == 0 {
		require.NotContains(t, diagnosis, "needs CAP_SYS_ADMIN.")
	} else { // before Linux 6.6
		require.Equal(t, 4, status, said)
		require.Contains(t, said, refusal)
		require.Contains(t, diagnosis, "Attaching to probes needs CAP_SYS_ADMIN.")
	}
	t.Attr("rights", strconv.Itoa(status))
	status, said = says(append(slices.Clone(capabilities), unix.CAP_SYS_ADMIN), "trace", "-d", "10ms")
	require.Zero(t, status, said)
}
