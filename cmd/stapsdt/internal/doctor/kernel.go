//go:build linux

package doctor

import (
	"debug/elf"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// noSys: tracers look for the kernel's uprobes and for its processors in /sys.
func noSys(f *Facts) []Finding {
	if f.Host.Uprobes != UprobesUnknown {
		return nil
	}
	return []Finding{fault(StatusFault,
		"/sys is not mounted, where tracers look for the kernel's uprobes and its processors.",
		"Mount it: mount -t sysfs sysfs /sys.")}
}

// uprobes: the kernel has no uprobes, or does not show them here.
func uprobes(f *Facts) []Finding {
	switch f.Host.Uprobes {
	case UprobesThere:
		return fine("The kernel has uprobes.")
	case UprobesUnknown:
		return nil
	}
	says := "The kernel has no event source for uprobes (/sys/bus/event_source/devices/uprobe)"
	cure := "Use a kernel from Linux 4.17 on that was built with CONFIG_UPROBE_EVENTS. In a container, do not hide /sys/bus."
	if f.Trial.Name.Probe != "" && f.Trial.Perf == nil {
		return []Finding{limit(says+". bpftrace 0.17 cannot attach without it; stapsdt can, from Linux 6.6 on.", cure)}
	}
	return []Finding{fault(StatusFault, says+", without which tracers cannot attach.", cure)}
}

// oldKernel: tracers need a newer kernel.
func oldKernel(f *Facts) []Finding {
	major, minor, ok := version(f.Host.Release)
	older := func(than, and int) bool { return major < than || major == than && minor < and }
	switch {
	case !ok:
		return nil
	case older(4, 17):
		return []Finding{fault(StatusFault,
			fmt.Sprintf("Linux %s is too old: the event source that tracers use came with Linux 4.17.", f.Host.Release),
			"Use a newer kernel, or tracefs: docs/perf-and-tracefs.md.")}
	case older(5, 8):
		return []Finding{limit(
			fmt.Sprintf("Linux %s is too old for stapsdt, which takes Linux 5.8.", f.Host.Release), "Use bpftrace or perf.")}
	}
	return fine("Linux " + f.Host.Release + " is new enough.")
}

// version reads "6.18.44-generic".
func version(release string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest)
	return major, minor, err1 == nil && err2 == nil
}

// narrow are the machines of programs that the kernel of another machine runs as well.
var narrow = map[elf.Machine]elf.Machine{elf.EM_386: elf.EM_X86_64, elf.EM_ARM: elf.EM_AARCH64}

// architecture: the program is of another machine than the kernel.
func architecture(f *Facts) []Finding {
	machine := f.Process.Emulated
	bits := false
	for _, im := range f.selected() {
		if im.Machine != f.Host.Machine || im.Class != f.Host.Class {
			machine = im.Machine
			bits = narrow[machine] == f.Host.Machine || machine == f.Host.Machine
			break
		}
	}
	name := strings.TrimPrefix(machine.String(), "EM_")
	switch {
	case f.Host.Machine == elf.EM_NONE:
		return nil
	case bits:
		return []Finding{limit(
			fmt.Sprintf("The program has 32 bits (%s) and the kernel 64. bpftrace 0.27 finds no probes in such a program; bpftrace 0.17 and stapsdt do.", name),
			"Use stapsdt, bpftrace 0.17 or tracefs (docs/perf-and-tracefs.md), or build the program for 64 bits.")}
	case machine != elf.EM_NONE:
		return []Finding{fault(StatusFault,
			fmt.Sprintf("The probes are those of another architecture (%s) than the kernel's (%s): an emulator such as qemu runs the program, and the processor never executes the sites.",
				name, strings.TrimPrefix(f.Host.Machine.String(), "EM_")),
			"Build the program for this machine, or trace it inside a virtual machine of its own.")}
	case len(f.selected()) > 0:
		return fine("The program is of the kernel's architecture.")
	}
	return nil
}

// site: the kernel does not take the instruction at the site.
func site(f *Facts) []Finding {
	err := f.Trial.Perf
	switch {
	case f.Trial.Name.Probe == "" || err == nil && f.Trial.BPF != nil:
		return nil
	case err == nil:
		return fine("The kernel lets " + f.Trial.Name.String() + " be traced.")
	case denied(err), errors.Is(err, unix.ENOSYS), errors.Is(err, errNoUprobes), errors.Is(err, unix.ESRCH):
		return nil // other checks say why, or the process has exited
	}
	return []Finding{fault(StatusFault,
		fmt.Sprintf("The kernel cannot trace the site of %v: %v. It does not take the instruction there.", f.Trial.Name, err),
		"Start the program without STAPSDT_SITE in its environment, or with STAPSDT_SITE=nop1.")}
}

// tracefs: bpftrace 0.25 and later do nothing without.
func tracefs(f *Facts) []Finding {
	switch {
	case f.Host.Tracefs != "":
		return fine("tracefs is mounted at " + f.Host.Tracefs + ".")
	case !f.Host.Mounts:
		return nil
	}
	return []Finding{limit(
		"tracefs is not mounted: bpftrace 0.25 and later, and perf probe, do nothing without it.",
		"mount -t tracefs tracefs /sys/kernel/tracing; for a container, docker run -v /sys/kernel/tracing:/sys/kernel/tracing:ro.")}
}
