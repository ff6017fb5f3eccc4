//go:build linux

package doctor

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// capability: tracing takes more rights than this process has.
func capability(f *Facts) (all []Finding) {
	if missing := f.missing(); len(missing) > 0 {
		says := "Attaching to probes needs " + strings.Join(missing, " and ") + "."
		if f.Host.Paranoid != "" {
			says += " It does not matter that perf_event_paranoid is " + f.Host.Paranoid + "."
		}
		all = append(all, fault(StatusRights, says, "Run the tracer as root (sudo), or give it these capabilities."))
	} else {
		all = f.limitedRights()
	}
	if f.Closed != nil {
		says := fmt.Sprintf("A file that the process has mapped cannot be opened, and may have probes: %v.", f.Closed)
		cure := "Run the tracer with these capabilities, or as root outside of the container."
		if len(f.selected()) == 0 {
			all = append(all, fault(StatusRights, says, cure))
		} else {
			all = append(all, limit(says, cure))
		}
	}
	if len(all) == 0 {
		return fine("No capability is missing.")
	}
	return all
}

// missing returns the capabilities that attaching takes and that are missing.
func (f *Facts) missing() (names []string) {
	if !f.Self.has(unix.CAP_BPF) {
		names = append(names, "CAP_BPF")
	}
	if !f.Self.has(unix.CAP_PERFMON) {
		names = append(names, "CAP_PERFMON")
	}
	// Only some kernels demand it, of tracers that cannot use uprobe_multi.
	if len(names) == 0 && f.Trial.BPF == nil && errors.Is(f.Trial.Perf, unix.EACCES) && !f.Self.has(unix.CAP_SYS_ADMIN) {
		names = append(names, "CAP_SYS_ADMIN")
	}
	return names
}

// limitedRights is for users with the capabilities that tracing needs, but not all of root's.
func (f *Facts) limitedRights() (all []Finding) {
	if f.Self.UID != 0 {
		all = append(all, limit(fmt.Sprintf("bpftrace 0.17 runs as root only, and this is user %d.", f.Self.UID),
			"Run bpftrace with sudo, or use stapsdt trace."))
	} else if f.Self.Capabilities&(1<<unix.CAP_SYS_ADMIN) == 0 {
		all = append(all, limit("bpftrace 0.17 needs CAP_SYS_ADMIN, which is missing.",
			"Add it, or use a newer bpftrace or stapsdt trace."))
	}
	if !f.refused() || f.Host.Lockdown == confidentiality || f.Self.Seccomp {
		return all // or other checks say why
	}
	if user := f.Self.Namespaces.User; user != initialUser && user != "" {
		return append(all, fault(StatusRights,
			"The kernel refuses to trace here: the capabilities of this process are those of a user namespace, and tracing takes those of the initial one.",
			"Run the tracer on the host, or in a container without a user namespace."))
	}
	return append(all, fault(StatusRights,
		fmt.Sprintf("The kernel refuses to trace here, although no capability is missing: %v. A security module, such as SELinux, can be why.", errors.Join(f.Trial.BPF, f.Trial.Perf)),
		"Look for the refusal in the log of the kernel (dmesg, ausearch)."))
}

// refused reports whether the kernel, or a filter before it, has refused what tracers do.
func (f *Facts) refused() bool {
	for _, err := range []error{f.Trial.BPF, f.Trial.Perf} {
		if denied(err) || errors.Is(err, unix.ENOSYS) {
			return true
		}
	}
	return false
}

const confidentiality = "confidentiality"

// lockdown: the kernel lets no user look at programs.
func lockdown(f *Facts) []Finding {
	switch f.Host.Lockdown {
	case "":
		return fine("The mode of lockdown cannot be read, as on kernels that have no lockdown.")
	case confidentiality:
		return []Finding{fault(StatusFault,
			"The kernel is locked down in the mode confidentiality, in which nothing can be traced.",
			"Boot with lockdown=integrity or lockdown=none.")}
	}
	return fine("The mode of lockdown is " + f.Host.Lockdown + ", which lets probes be traced.")
}

// seccomp: a filter refuses the system calls of tracers.
func seccomp(f *Facts) []Finding {
	switch {
	case !f.Self.Seccomp:
		return fine("There is no seccomp filter.")
	case f.refused() && len(f.missing()) == 0 && f.Host.Lockdown != confidentiality:
		var refused []string
		if f.Trial.BPF != nil {
			refused = append(refused, fmt.Sprintf("bpf (%v)", f.Trial.BPF))
		}
		if f.Trial.Perf != nil {
			refused = append(refused, fmt.Sprintf("perf_event_open (%v)", f.Trial.Perf))
		}
		return []Finding{fault(StatusFault,
			"A seccomp filter refuses the system calls of tracers, although no capability is missing: "+strings.Join(refused, " and ")+".",
			"Add bpf and perf_event_open to the profile of the tracer's container (docker run --security-opt seccomp=FILE). The traced program needs neither.")}
	}
	return fine("There is a seccomp filter, which has refused nothing.")
}

// paranoid: users suspect this setting, which does not matter.
func paranoid(f *Facts) []Finding {
	if f.Host.Paranoid == "" {
		return nil
	}
	return fine("perf_event_paranoid is " + f.Host.Paranoid + ", which does not matter for probes.")
}
