//go:build linux

package bpf

import (
	"errors"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// detectMulti reports whether there is uprobe_multi, and whether its PIDs are PIDs of processes. In Linux 6.6 to 6.6.32
// and up to 6.9.3 they were IDs of threads, so that the other threads of a process had no events (commit 46ba0e49b642).
func detectMulti() (exists, ofProcesses bool, err error) {
	if err := features.HaveBPFLinkUprobeMulti(); errors.Is(err, ebpf.ErrNotSupported) {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: license,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return false, false, err
	}
	defer prog.Close()
	self, err := link.OpenExecutable("/proc/self/exe")
	if err != nil {
		return false, false, err
	}
	_, err = self.UprobeMulti(nil, prog, &link.UprobeMultiOptions{Addresses: []uint64{1}, PID: math.MaxUint32})
	return true, refusesPID(err), nil
}

// refusesPID reports whether an error for the PID -1 comes from a kernel that looks for a process. Other kernels looked
// for a thread, and found none.
func refusesPID(err error) bool { return errors.Is(err, unix.EINVAL) }
