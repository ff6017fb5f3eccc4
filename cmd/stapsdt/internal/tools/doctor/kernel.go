//go:build linux

package doctor

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"

	"golang.org/x/sys/unix"
)

// denied reports whether an error is a refusal.
func denied(err error) bool { return errors.Is(err, fs.ErrPermission) }

// refused reports whether the kernel, or a filter before it, has refused the trial.
func (f *Facts) refused() bool {
	err := errors.Join(f.Trial.BPF, f.Trial.Attach)
	return denied(err) || errors.Is(err, unix.ENOSYS)
}

// reason returns the kernel's error in the trial.
func (f *Facts) reason() string { return rights.Reason(errors.Join(f.Trial.BPF, f.Trial.Attach)) }

// missing returns the capabilities that attaching needs and that this process lacks.
func (f *Facts) missing() []rights.Capability {
	admin := func(c rights.Capability) bool { return c == rights.Admin }
	missing := slices.DeleteFunc(slices.Clone(f.Self.Missing), admin)
	// Only some kernels demand CAP_SYS_ADMIN, where uprobe_multi cannot be used.
	if len(missing) == 0 && f.Trial.BPF == nil && errors.Is(f.Trial.Attach, unix.EACCES) {
		return f.Self.Missing
	}
	return missing
}

func capability(f *Facts) (all []Finding) {
	switch missing := f.missing(); {
	case len(missing) > 0:
		lack := rights.Error{Op: "Attaching to probes", Missing: missing}
		remedy := "Run stapsdt as root (sudo), or give it these capabilities."
		if errors.Is(f.Process.Socket, socket.ErrNone) && !f.Process.Asked {
			remedy += " Or start the program with STAPSDT_SOCKET=1, which probeenv.Load and the C library obey: its own user needs no rights then."
		}
		all = fault(StatusRights, lack.Error()+".", remedy)
	case !f.refused() || f.Self.Seccomp: // see other checks
	case f.Self.InUserNamespace:
		all = fault(StatusRights, "The kernel refuses to trace here: the capabilities of this process are those of a user namespace, but tracing takes capabilities in the initial one.",
			"Run stapsdt on the host, or in a container without a user namespace.")
	default:
		all = fault(StatusRights, fmt.Sprintf("The kernel refuses to trace here, although no capability is missing: %v. A security module, such as SELinux, can be the reason.", f.reason()),
			"Look for the refusal in the log of the kernel (dmesg, ausearch).")
	}
	if f.Closed != nil {
		status, remedy := StatusRights, "Run stapsdt with these capabilities, or as root outside of the container."
		if errors.As(f.Closed, new(*target.PutOff)) {
			status, remedy = StatusFault, "Try again when the file can be read."
		}
		result := fault(status, fmt.Sprintf("A file that the process has mapped cannot be opened, but may have probes: %v.", f.Closed), remedy)
		if f.likely() != nil {
			result[0].Level = Note
		}
		all = append(all, result...)
	}
	if len(all) == 0 {
		return fine("No capability is missing.")
	}
	return all
}

// lockdown checks whether programs may read the kernel's memory. They can trace in either mode.
func lockdown(f *Facts) []Finding {
	if f.Host.Lockdown == "confidentiality" {
		return note("The kernel is locked down (lockdown=confidentiality), so that no program can read its memory. Tracing works, with strings, but conditions and keys with executable are refused, export leaves out the label executable, and processes that a traced process forks are found late.",
			"To use these, boot with lockdown=integrity or lockdown=none.")
	}
	return fine("The kernel has no lockdown that restricts tracing.")
}

func seccomp(f *Facts) []Finding {
	switch {
	case !f.Self.Seccomp:
		return fine("There is no seccomp filter.")
	case f.refused() && len(f.missing()) == 0:
		return fault(StatusFault, fmt.Sprintf("A seccomp filter refuses the system calls of tracers, although no capability is missing: %v.", f.reason()),
			"Add bpf and perf_event_open to the profile of this container (docker run --security-opt seccomp=FILE). The traced program needs neither.")
	}
	return fine("There is a seccomp filter, which has refused nothing.")
}

func noSys(f *Facts) []Finding {
	if f.Host.Uprobes != UprobesUnknown {
		return nil
	}
	return fault(StatusFault, "/sys is not mounted: it shows the kernel's uprobes and its processors.", "Mount it: mount -t sysfs sysfs /sys.")
}

// uprobes checks whether the kernel shows an event source for uprobes. From Linux 6.6, attaching
// works without it.
func uprobes(f *Facts) []Finding {
	if f.Host.Uprobes != UprobesMissing ||
		f.Trial.Name.Probe != "" && f.Trial.Attach == nil && f.Trial.BPF == nil {
		return nil
	}
	return fault(StatusFault, "The kernel has no event source for uprobes (/sys/bus/event_source/devices/uprobe).",
		"Use a kernel that was built with CONFIG_UPROBE_EVENTS. In a container, do not hide /sys/bus.")
}

func oldKernel(f *Facts) []Finding {
	var major, minor int
	switch _, err := fmt.Sscanf(f.Host.Release, "%d.%d", &major, &minor); {
	case err != nil:
		return nil
	case major < 5 || major == 5 && minor < 8:
		return fault(StatusFault, fmt.Sprintf("Linux %s is too old: stapsdt needs Linux 5.8.", f.Host.Release), "Use a newer kernel, or let the program listen: docs/without-root.md.")
	}
	return fine("Linux " + f.Host.Release + " is new enough.")
}

func architecture(f *Facts) []Finding {
	if f.Process.Foreign == elf.EM_NONE {
		return nil
	}
	name := func(m elf.Machine) string { return strings.TrimPrefix(m.String(), "EM_") }
	return fault(StatusFault,
		fmt.Sprintf("The architecture of the probes (%s) is not the kernel's (%s): an emulator such as qemu runs the program, and the processor never executes the sites.",
			name(f.Process.Foreign), name(f.Host.Machine)),
		"Build the program for this machine, or trace it inside a virtual machine of its own.")
}

func site(f *Facts) []Finding {
	err := f.Trial.Attach
	switch {
	case f.Trial.Name.Probe == "" || f.Trial.BPF != nil || f.refused() ||
		errors.Is(err, unix.ESRCH) || err != nil && f.Host.Uprobes != UprobesThere:
		return nil // other checks report the reason, or the process has exited
	case err == nil:
		return fine("The kernel lets " + f.Trial.Name.String() + " be traced.")
	}
	return fault(StatusFault, fmt.Sprintf("The kernel cannot trace the site of %v: %v. It does not support the instruction there.", f.Trial.Name, err),
		"Start the program without STAPSDT_SITE in its environment, or with STAPSDT_SITE=nop1.")
}

func overlay(f *Facts) []Finding {
	if t := f.Trial; !t.Known || t.BPF != nil || t.Attach != nil || t.Before || t.During {
		return nil
	}
	return fault(StatusFault,
		fmt.Sprintf("The kernel accepts a tracer for %s, but the code of process %d stays unchanged: the process executes another file. An overlay file system does this when a file of a lower layer is changed, and copies it.", f.Trial.Path, f.PID),
		"Unload and Load the provider, or start the program again. Keep the files of images out of container images.")
}

// traced checks whether a tracer is attached, so that the rest is up to the program.
func traced(f *Facts) []Finding {
	if !f.Trial.Known || !f.Trial.Before {
		return nil
	}
	return note(fmt.Sprintf("A tracer is attached to %v in process %d now. If it shows nothing, the code does not fire, or a filter is never true.", f.Trial.Name, f.PID), "")
}
