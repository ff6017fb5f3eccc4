//go:build linux

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// ErrLockdown means that something needs the kernel's memory, and the kernel is locked down.
var ErrLockdown = errors.New("the kernel is locked down (lockdown=confidentiality), so that no program can read its memory")

// isLockedDown reports whether the kernel lets no program read its memory. The helper in question
// exists on amd64 and arm64 otherwise, and package ebpf does not replace it. Tests replace the
// function.
var isLockedDown = func() bool {
	err := features.HaveProgramHelper(ebpf.Kprobe, asm.FnProbeRead)
	return errors.Is(err, ebpf.ErrNotSupported) && features.HaveProgramType(ebpf.Kprobe) == nil
}

// loadLockedDown loads a program while the kernel is locked down. ebpf.NewProgram mistakes this for
// an old kernel, and replaces the helpers that read a process's memory by older ones, which read
// the kernel's memory too and are refused (fixupProbeReadKernel in linker.go of v0.22.0).
func loadLockedDown(spec *ebpf.ProgramSpec) (*ebpf.Program, error) {
	for _, in := range spec.Instructions {
		if in.IsBuiltinCall() && readsKernel(asm.BuiltinFunc(in.Constant)) {
			return nil, ErrLockdown
		}
	}
	var code bytes.Buffer
	instructions := slices.Clone(spec.Instructions) // Marshal resolves their references
	// Both amd64 and arm64 are little-endian.
	if err := instructions.Marshal(&code, binary.LittleEndian); err != nil {
		return nil, err
	}
	license := append([]byte(spec.License), 0)
	attr := progLoad{
		kind: uint32(spec.Type), expected: uint32(spec.AttachType), flags: spec.Flags,
		count:        uint32(code.Len() / asm.InstructionSize),
		instructions: unsafe.Pointer(&code.Bytes()[0]), license: unsafe.Pointer(&license[0]),
	}
	copy(attr.name[:len(attr.name)-1], spec.Name)
	for attempt := 1; ; attempt++ {
		// SAFETY: attr lives until the call returns, because the conversion is in its arguments. It
		// keeps alive what its pointers refer to: count instructions, and a license with its NUL.
		fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD,
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		switch {
		case errno == 0:
			return ebpf.NewProgramFromFD(int(fd))
		case errno != unix.EAGAIN || attempt == maxLoads:
			return nil, fmt.Errorf("load program: %w", errno)
		}
	}
}

// maxLoads is the maximum number of attempts to load a program if a signal makes the kernel give
// up the check.
const maxLoads = 30

func readsKernel(helper asm.BuiltinFunc) bool {
	return helper == asm.FnProbeReadKernel || helper == asm.FnProbeReadKernelStr
}

// progLoad is the beginning of union bpf_attr for BPF_PROG_LOAD (include/uapi/linux/bpf.h).
type progLoad struct {
	kind, count           uint32
	instructions, license unsafe.Pointer
	logLevel, logSize     uint32
	log                   unsafe.Pointer
	version, flags        uint32
	name                  [unix.BPF_OBJ_NAME_LEN]byte
	ifindex, expected     uint32
}
