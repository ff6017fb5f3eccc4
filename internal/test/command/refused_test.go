//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// refuser is a program that executes another one, for which commands of bpf(2) fail: its first
// argument is the error, and the second the command.
const refuser = `#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **args) {
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(args[2]), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)atoi(args[1])),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	if (count < 4 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 99;
	execv(args[3], args + 3);
	return 98;
}
`

// TestRefusedOnce: what the kernel refuses is one sentence with the remedy, and a status that is not 0.
// With -v, the kernel's own words follow.
func TestRefusedOnce(t *testing.T) {
	testenv.NeedsRoot(t)
	id, _ := startSilent(t)
	refuse := filepath.Join(t.TempDir(), "refuse")
	compileText(t, refuse, refuser)
	const (
		descriptors = ": too many files are open: raise the limit (ulimit -n, LimitNOFILE= of systemd)"
		forbidden   = " is not permitted here, although no capability is missing: operation not permitted (a seccomp filter, a security module or a user namespace can be the cause)"
		memory      = ": the kernel lacks memory for it: raise the memory limit of the control group, or "
		maps        = "a BPF map cannot be created"
		programs    = "loading BPF programs" // the links of a test are among the first calls
	)
	for _, c := range []struct {
		errno   unix.Errno
		command int
		says    string
	}{
		{unix.EPERM, unix.BPF_MAP_CREATE, "loading BPF maps" + forbidden},
		{unix.EPERM, unix.BPF_PROG_LOAD, programs + forbidden},
		{unix.EPERM, unix.BPF_LINK_CREATE, programs + forbidden},
		{unix.ENOMEM, unix.BPF_MAP_CREATE, maps + memory + "lower the limits"},
		{unix.ENOMEM, unix.BPF_PROG_LOAD, programs + memory + "trace fewer probes"},
		{unix.EMFILE, unix.BPF_MAP_CREATE, maps + descriptors},
		{unix.EMFILE, unix.BPF_PROG_LOAD, programs + descriptors},
		{unix.EMFILE, unix.BPF_LINK_CREATE, programs + descriptors},
	} {
		for _, verbose := range []bool{false, true} {
			args := []string{fmt.Sprint(int(c.errno)), fmt.Sprint(c.command), stapsdt(t), "count", "-d", "100ms", "-p", fmt.Sprint(id), "silent:one", "--via", "kernel"}
			if verbose {
				args = append(args, "-v")
			}
			r := runToEnd(t, exec.Command(refuse, args...))
			require.NotContains(t, []int{0, 98, 99}, r.status)
			assert.Equal(t, 1, strings.Count(r.stderr, c.says), "%v: %s", c, r.stderr)
			own := ""
			for line := range strings.Lines(r.stderr) {
				if words, found := strings.CutPrefix(line, "stapsdt: the kernel's error: "); found {
					own = words
				}
			}
			if verbose {
				assert.Contains(t, own, c.errno.Error(), c)
			} else {
				assert.Empty(t, own, c)
			}
		}
	}
}

// TestFewDescriptors: with any limit of descriptors, a command works or names the limit. It does not
// take what it cannot open for absent.
func TestFewDescriptors(t *testing.T) {
	testenv.NeedsRoot(t)
	id, _ := startSilent(t)
	refused, worked := 0, 0
	for limit := 12; limit < 32; limit++ { // with fewer, Go's runtime does not start
		args := fmt.Sprintf("ulimit -n %d; exec %s count -d 100ms --via kernel -p %d silent:one", limit, stapsdt(t), id)
		r := runToEnd(t, exec.Command("sh", "-c", args))
		if r.status == 0 {
			assert.Empty(t, r.stderr, "%d", limit)
			worked++
			continue
		}
		refused++
		assert.Contains(t, r.stderr, "raise the limit (ulimit -n, LimitNOFILE= of systemd)", "%d", limit)
		assert.NotContains(t, r.stderr, "panic", "%d", limit)
		assert.NotContains(t, r.stderr, "no file of the process has", "%d", limit)
	}
	assert.Positive(t, refused)
	assert.Positive(t, worked)
}
