//go:build linux

package bpf

import (
	"fmt"
	"io"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRefused: each error that the manual pages and the kernel's source name for an operation
// becomes a sentence without the words of a package.
func TestRefused(t *testing.T) {
	for op, all := range map[Operation]map[unix.Errno]string{
		LoadProgram: {
			unix.EACCES: "verifier rejects it", unix.EINVAL: "verifier rejects it", unix.E2BIG: "too large", unix.ENOSPC: "too complex",
			unix.EFAULT: "verifier has failed", unix.ENOMEM: "memory limit", unix.EMFILE: "ulimit -n", unix.ENFILE: "ulimit -n",
			unix.EBUSY: "refuses it (device or resource busy)",
		},
		CreateMap: {
			unix.E2BIG: "too large", unix.EINVAL: "lower limits", unix.ENOMEM: "memory limit", unix.EMFILE: "ulimit -n", unix.ENFILE: "ulimit -n",
			unix.ENOSPC: "refuses it (no space left on device)",
		},
		AttachSite: {
			notSupported: "does not attach to this instruction", unix.EINVAL: "another semaphore", unix.EIO: "file system", unix.EBUSY: "try again",
			unix.E2BIG: "fewer probes", unix.ENOMEM: "memory limit", unix.EMFILE: "ulimit -n", unix.ENFILE: "ulimit -n",
			unix.ENOSPC: "refuses it (no space left on device)",
		},
	} {
		for errno, says := range all {
			err := Refused(op, "it failed", fmt.Errorf("words of a package: %w", errno))
			assert.Regexp(t, "^it failed: ", err.Error())
			assert.Contains(t, err.Error(), says)
			assert.NotContains(t, err.Error(), "words of a package")
			require.ErrorIs(t, err, errno)
			var refusal *Refusal
			require.ErrorAs(t, err, &refusal)
			assert.Contains(t, refusal.Raw(), "words of a package")
		}
	}
	require.EqualError(t, Refused(LoadProgram, "it failed", io.EOF), "it failed: EOF")
}

// TestRefusedByKernel: the refusals of this kernel are sentences, and the verifier's log is kept.
func TestRefusedByKernel(t *testing.T) {
	testenv.NeedsRoot(t)
	k, err := Detect()
	require.NoError(t, err)
	load := func(ins ...asm.Instruction) error {
		prog, err := k.Load("begin", &Section{ins: ins, awake: true})
		if err == nil {
			prog.Close()
		}
		return err
	}
	const what = "the program of begin cannot be loaded: "
	wrong := load(asm.Mov.Reg(asm.R0, asm.R3), asm.Return())
	require.EqualError(t, wrong, what+unverified)
	var refusal *Refusal
	require.ErrorAs(t, wrong, &refusal)
	require.Contains(t, refusal.Raw(), "R3 !read_ok")
	require.NotContains(t, refusal.Raw(), "omitted")

	long := make([]asm.Instruction, 1_000_001)
	for i := range long {
		long[i] = asm.Mov.Imm(asm.R0, 0)
	}
	require.EqualError(t, load(append(long, asm.Return())...), what+reasons[LoadProgram][unix.E2BIG])

	_, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 1 << 30, MaxEntries: 1})
	require.ErrorIs(t, err, unix.E2BIG)
	require.EqualError(t, MapError(err), "a BPF map cannot be created: "+reasons[CreateMap][unix.E2BIG])
}
