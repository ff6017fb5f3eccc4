//go:build linux

package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// noProc: tracers find processes, and what these have mapped, in /proc.
func noProc(f *Facts) []Finding {
	if !f.Self.NoProc {
		return nil
	}
	return []Finding{fault(StatusFault,
		"/proc is not mounted, where tracers find processes and the files that these have mapped.",
		"Mount it: mount -t proc proc /proc.")}
}

// stopped: a process that is stopped fires nothing.
func stopped(f *Facts) []Finding {
	if !f.Process.Stopped {
		return nil
	}
	return []Finding{fault(StatusFault,
		fmt.Sprintf("Process %d is stopped, by a signal or a debugger, and fires nothing until it continues.", f.PID),
		fmt.Sprintf("Let it continue: kill -CONT %d, or detach the debugger.", f.PID))}
}

// twoProcesses: pgrep prints all that match, and bpftrace follows the first.
func twoProcesses(f *Facts) []Finding {
	if len(f.PIDs) > 1 {
		return []Finding{fault(StatusFault,
			fmt.Sprintf("-p names the processes %s. bpftrace refuses several numbers, or follows the first and does not say so.", list(f.PIDs)),
			"Give one of them; pgrep -nx NAME prints the newest process of exactly this name. To trace all of them, attach to the file of the probes, without -p.")}
	}
	if n := len(f.Process.Siblings); n > 0 {
		return []Finding{note(
			fmt.Sprintf("%s the same program as process %d: %s. Their events are not those of process %d.", count(n, "other process runs", "other processes run"), f.PID, list(f.Process.Siblings), f.PID), "")}
	}
	return nil
}

// pidNamespace: the number is another one, or none, where the tracer runs.
func pidNamespace(f *Facts) []Finding {
	switch {
	case !f.Self.OwnProc:
		return []Finding{fault(StatusFault,
			"/proc belongs to another PID namespace than this process, so that its numbers are not those that the kernel takes from a tracer here.",
			"Mount a /proc of this namespace (unshare --mount-proc), or run the tracer in the namespace that /proc belongs to.")}
	case !f.Process.Alive && f.Self.Namespaces.PID != initialPID:
		return []Finding{fault(StatusNothing,
			fmt.Sprintf("There is no process %d in this PID namespace, which is not the initial one. A process of the host or of another container has another number here, or none.", f.PID),
			"Give the tracer's container the PID namespace of the target (docker run --pid=container:NAME, or --pid=host), or run the tracer on the host.")}
	}
	return nil
}

func noProcess(f *Facts) []Finding {
	if f.Process.Alive || f.Self.Namespaces.PID != initialPID || !f.Self.OwnProc {
		return nil
	}
	return []Finding{fault(StatusNothing,
		fmt.Sprintf("There is no process %d, or it has exited. If the number is from inside a container, it is another one here.", f.PID),
		"pgrep -nx NAME prints the number that the process has here.")}
}

// otherUser: the process belongs to another user, whom this one may not look at.
func otherUser(f *Facts) []Finding {
	if !f.Process.Alive || !denied(f.Process.Refused) {
		return nil
	}
	if len(f.Process.UIDs) > 0 && !slices.Contains(f.Process.UIDs, f.Self.UID) {
		return []Finding{fault(StatusRights,
			fmt.Sprintf("Process %d belongs to user %d, and this is user %d: %v.", f.PID, f.Process.UIDs[0], f.Self.UID, f.Process.Refused),
			"Run the tracer as root (sudo).")}
	}
	if uids := f.Process.UIDs; len(uids) > 1 && uids[0] == f.Self.UID && uids[1] != uids[0] {
		return []Finding{fault(StatusRights,
			fmt.Sprintf("Process %d runs with the rights of user %d, because its file is set-user-ID, and this is user %d: %v.", f.PID, uids[1], f.Self.UID, f.Process.Refused),
			"Run the tracer as root (sudo).")}
	}
	return []Finding{fault(StatusRights,
		fmt.Sprintf("Process %d cannot be looked at: %v.", f.PID, f.Process.Refused),
		"Run the tracer as root outside of the container, with every capability that the process has.")}
}

// notLoaded: the process has no probes.
func notLoaded(f *Facts) []Finding {
	if !f.looked() || len(f.Images) > 0 || f.Closed != nil || f.Process.Emulated != 0 {
		return nil
	}
	who := fmt.Sprintf("Process %d (%s)", f.PID, f.Process.Name)
	switch p := &f.Process; {
	case len(p.Children) > 0:
		return []Finding{fault(StatusNothing,
			fmt.Sprintf("%s has no probes, but has started %s, which has: it is a wrapper, such as go run.", who, list(p.Children)),
			fmt.Sprintf("Use -p %d.", p.Children[0]))}
	case p.Parked:
		return []Finding{fault(StatusNothing,
			who+" has no probes now: its provider was loaded, and then unloaded.",
			"Wait for the next Load, and start the tracer after it.")}
	case strings.Contains(p.Directory, ":"):
		return []Finding{fault(StatusNothing,
			fmt.Sprintf("%s has no probes: its STAPSDT_DIR is %s, and tracers cannot find probes in a path with a colon, so that Load has failed.", who, p.Directory),
			"Set STAPSDT_DIR to a directory without a colon in its path, and start the program again.")}
	case p.HasLibrary:
		says := who + " has no probes, though the library is built into it: the program has not called Load or LoadAll, or this has failed."
		if p.Directory != "" {
			says += fmt.Sprintf(" Its STAPSDT_DIR demands the directory %s and no other.", p.Directory)
		}
		return []Finding{fault(StatusNothing, says,
			"Look at the error that Load returned; with STAPSDT_DEBUG=1 in its environment, the program prints why each place was not used. Start the tracer after Load.")}
	}
	return []Finding{fault(StatusNothing,
		who+" has no probes: no file that it has mapped has SDT notes. A provider has none before Load and after Unload.",
		"Check that this is the right process, and that its provider is loaded. Start the tracer after Load.")}
}

// filter: a condition such as pid == 1 compares another number.
func filter(f *Facts) []Finding {
	if !f.looked() || len(f.Process.Numbers) < 2 && f.Self.Namespaces.PID == initialPID {
		return nil
	}
	own := f.PID
	if n := len(f.Process.Numbers); n > 0 {
		own = f.Process.Numbers[n-1]
	}
	if f.Self.Namespaces.PID != initialPID {
		return []Finding{note(
			fmt.Sprintf("This PID namespace is not the initial one. In bpftrace 0.17, pid is the number that the host knows, and not %d.", f.PID),
			"Use -p instead of a filter by pid.")}
	}
	return []Finding{note(
		fmt.Sprintf("Process %d runs in a PID namespace of its own, where its number is %d. Filters by pid compare %d.", f.PID, own, f.PID), "")}
}

func list(pids []int) string {
	const most = 8
	var all []string
	for _, pid := range pids[:min(len(pids), most)] {
		all = append(all, fmt.Sprint(pid))
	}
	if rest := len(pids) - most; rest > 0 {
		return fmt.Sprintf("%s and %d others", strings.Join(all, ", "), rest)
	}
	if last := len(all) - 1; last > 0 {
		return strings.Join(all[:last], ", ") + " and " + all[last]
	}
	return strings.Join(all, "")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
