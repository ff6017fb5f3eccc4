//go:build linux

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/nearest"
	"github.com/go-stapsdt/stapsdt/internal/wire"
	"github.com/go-stapsdt/stapsdt/sdt"
)

func noProc(f *Facts) []Finding {
	if !f.Self.NoProc {
		return nil
	}
	return fault(StatusFault, "/proc is not mounted.", "Mount it: mount -t proc proc /proc.")
}

func noProcess(f *Facts) []Finding {
	switch {
	case !f.Self.OwnProc:
		return fault(StatusFault, "/proc belongs to a PID namespace other than this process's, so the PIDs that it shows are not those that the kernel accepts.",
			"Mount a /proc of this namespace (unshare --mount-proc), or run stapsdt in the namespace that /proc belongs to.")
	case f.Process.Alive:
		return nil
	case f.Self.InPIDNamespace:
		return fault(StatusNothing, fmt.Sprintf("There is no process %d in this PID namespace. A process of the host or of another container has another PID here, or none.", f.PID),
			"Give this container the PID namespace of the target (docker run --pid=container:NAME, or --pid=host), or run stapsdt on the host.")
	}
	return fault(StatusNothing, fmt.Sprintf("There is no process %d, or it has exited. In a container, processes have other PIDs.", f.PID),
		"pgrep -nx NAME prints the PID that the process has here.")
}

func siblings(f *Facts) []Finding {
	if len(f.Process.Siblings) == 0 {
		return nil
	}
	return note(fmt.Sprintf("The program of process %d also runs as %s, which fires events of its own.", f.PID, text.PIDs(f.Process.Siblings)), "")
}

func otherUser(f *Facts) []Finding {
	if !f.Process.Alive || !denied(f.Process.Refused) {
		return nil
	}
	message, remedy := fmt.Sprintf("Process %d runs as user %d, but stapsdt as user %d: %v.", f.PID, f.Process.UID, f.Self.UID, f.Process.Refused), "Run stapsdt as root (sudo)."
	switch {
	case errors.Is(f.Process.Socket, socket.ErrUser):
		remedy = fmt.Sprintf("Run stapsdt as user %d: the process listens, and root is not needed.", f.Process.UID)
	case f.Process.UID == f.Self.UID:
		message = fmt.Sprintf("Process %d runs as this user, %d, but is hidden nevertheless: %v.", f.PID, f.Self.UID, f.Process.Refused)
		remedy = "Run stapsdt as root outside of the container, with every capability that the process has."
	}
	return fault(StatusRights, message, remedy)
}

func listens(f *Facts) []Finding {
	err := f.Process.Socket
	if !f.Process.Alive || errors.Is(err, proc.ErrNoProcess) {
		return nil
	}
	remedy := "Let the program close the Listener and call Listen again, or restart the program."
	switch {
	case err == nil:
		return fine(fmt.Sprintf("Process %d listens: stapsdt watches its probes without rights and without the kernel.", f.PID))
	case errors.Is(err, socket.ErrNone) && f.Process.Asked:
		return note(fmt.Sprintf("Process %d does not listen, although STAPSDT_SOCKET=1 is in its environment.", f.PID),
			"Let the program call probeenv.Load, or load a provider of the C library, and look at the error that it prints or returns.")
	case errors.Is(err, socket.ErrNone):
		return fine(fmt.Sprintf("Process %d does not listen. If it is started with STAPSDT_SOCKET=1, which probeenv.Load and the C library obey, stapsdt needs no rights to watch it.", f.PID))
	case errors.Is(err, socket.ErrUser):
		remedy = "Run stapsdt as that user. Root is not needed."
	case errors.Is(err, wire.ErrVersion):
		remedy = "Use a command of the same major version as the library in the program."
	case errors.Is(err, socket.ErrRefused):
		remedy = "Run stapsdt where the program's directory can be reached: in its container, or in one of the same user that shares the PID namespace or the volume."
	}
	return note(fmt.Sprintf("Process %d listens, but its socket cannot be used: %v.", f.PID, err), remedy)
}

func variables(f *Facts) (all []Finding) {
	for _, err := range f.Process.Invalid {
		all = append(all, note(fmt.Sprintf("The environment of process %d has a value that the library refuses: %v.", f.PID, err),
			"Start it with another value.")...)
	}
	return all
}

func notLoaded(f *Facts) []Finding {
	p := &f.Process
	if !f.readable() || len(f.Images) > 0 || f.Closed != nil || p.Foreign != 0 {
		return nil
	}
	message, remedy := ".", "Check that this is the right process, and that its provider is loaded. Start the tracer after Load."
	switch {
	case len(f.LeftOut) > 0:
		return fault(StatusNothing, fmt.Sprintf("Process %d (%s) may have probes in a file that was not opened: %v.", f.PID, p.Name, f.LeftOut[0]),
			"Name the file in front of the probe: FILE:PROVIDER:PROBE.")
	case len(p.Children) > 0:
		return note(fmt.Sprintf("Process %d (%s) has no probes, but has started %s, which has: it is a wrapper, such as go run, and -p %[1]d stands for both.", f.PID, p.Name, text.PIDs(p.Children)),
			fmt.Sprintf("To see what is wrong there: stapsdt doctor -p %d.", p.Children[0]))
	case p.Parked:
		message, remedy = " now: its provider was loaded, and then unloaded.", "Wait for the next Load, and start the tracer after it."
	case p.Go && !p.HasLibrary:
		remedy += fmt.Sprintf(" To trace its functions instead, see stapsdt list -p %d 'go:main.*'.", f.PID)
	case p.HasLibrary:
		message = ", though the library is built into it: the program has not called Load or LoadAll, or this has failed."
		remedy = "Log the error that Load returned; with STAPSDT_DEBUG=1 in its environment, the program prints why each place was not used. Start the tracer after Load."
	}
	if p.Directory != "" && !p.Parked {
		message += fmt.Sprintf(" Its STAPSDT_DIR demands the directory %s and no other, which must be usable and have no colon in its path.", p.Directory)
	}
	return fault(StatusNothing, fmt.Sprintf("Process %d (%s) has no probes%s", f.PID, p.Name, message), remedy)
}

func otherName(f *Facts) []Finding {
	switch {
	case f.Spec == nil || errors.Is(f.Named.Err, sdt.ErrNoProbes): // otherFile reports it
		return nil
	case f.Spec.File != "" && f.Named.Err == nil && !f.Named.HasProbe:
		return fault(
			StatusNothing,
			fmt.Sprintf("%s has no probe %s:%s.", f.Spec.File, f.Spec.Provider, f.Spec.Probe),
			"List its probes: stapsdt list "+f.Spec.File+".",
		)
	case len(f.Images) == 0 || f.likely() != nil:
		return nil
	}
	names := f.nearest()
	message := fmt.Sprintf("Process %d has no probe %s:%s. The nearest name is %s", f.PID, f.Spec.Provider, f.Spec.Probe, names[0])
	if len(names) > 1 {
		message += "; it also has " + text.Some(names[1:], 4)
	}
	return fault(StatusNothing, message+".", fmt.Sprintf("Use %s, or list the names: stapsdt list -p %d.", names[0], f.PID))
}

// nearest returns the names of all probes, beginning with the names that resemble the spec most.
func (f *Facts) nearest() (names []string) {
	distances := map[string]int{}
	for _, im := range f.Images {
		for _, n := range im.Probes {
			distances[n.String()] = nearest.Distance(
				f.Spec.Provider, n.Provider,
			) + nearest.Distance(f.Spec.Probe, n.Probe)
			names = append(names, n.String())
		}
	}
	slices.SortFunc(
		names,
		func(a, b string) int { return cmp.Or(distances[a]-distances[b], cmp.Compare(a, b)) },
	)
	return slices.Compact(names)
}

func otherFile(f *Facts) []Finding {
	if f.Spec == nil || f.Spec.File == "" || !f.readable() {
		return nil
	}
	file, mapped := f.Spec.File, ""
	if im := f.likely(); im != nil {
		mapped = fmt.Sprintf(" The process has mapped %s.", im.Path)
	}
	remedy := fmt.Sprintf("Use -p %d, and no file.", f.PID)
	switch err := f.Named.Err; {
	case errors.Is(err, sdt.ErrNoProbes):
		return fault(StatusNothing, file+" has no probes. A program that makes its probes at run time has them in another file, its image."+mapped, remedy)
	case errors.Is(err, fs.ErrNotExist) && f.Named.InRoot:
		return fault(StatusFault, fmt.Sprintf("%s exists in the file system of process %d only, not in the one here.", file, f.PID),
			fmt.Sprintf("Use -p %d, or the file /proc/%d/root%s.", f.PID, f.PID, file))
	case denied(err):
		return fault(StatusRights, fmt.Sprintf("The file cannot be opened: %v.", err), "Run stapsdt as root (sudo).")
	case err != nil:
		return fault(StatusNothing, fmt.Sprintf("The file cannot be used: %v.%s", err, mapped), remedy)
	case slices.ContainsFunc(f.Images, func(im Image) bool { return im.ID == f.Named.ID }):
		return fine(fmt.Sprintf("Process %d has mapped %s.", f.PID, file))
	}
	return fault(StatusFault, fmt.Sprintf("Process %d has not mapped %s, but a file of another user, directory or version, or has mapped it before it was replaced.%s", f.PID, file, mapped), remedy)
}

func deleted(f *Facts) (all []Finding) {
	for _, r := range f.Process.Deleted {
		all = append(all, note(fmt.Sprintf("Process %d records, but the file of its recording was deleted or unmounted: %s.", f.PID, r.File),
			fmt.Sprintf("Until the process ends, --from %s reads it. Restart the program, with a file that nothing deletes.", r.Deleted))...)
	}
	for _, im := range f.Images {
		if im.Deleted && slices.ContainsFunc(im.Probes, f.selects) {
			all = append(all, note(fmt.Sprintf("The file %s was deleted or replaced since process %d mapped it. stapsdt finds its probes nevertheless, but many other tracers do not.", im.Path, f.PID),
				"Let the program unload and load the provider, which writes the file again, or restart the program.")...)
		}
	}
	return all
}

func twice(f *Facts) (all []Finding) {
	for _, im := range f.Images {
		if im.Twice {
			all = append(all, note(fmt.Sprintf("%s is mapped twice in process %d, and the kernel enables the probes of one copy only.", im.Path, f.PID),
				"Load the library once: dlmopen and LD_AUDIT load another copy.")...)
		}
	}
	return all
}

func moved(f *Facts) (all []Finding) {
	for _, im := range f.Images {
		if im.Moved && slices.ContainsFunc(im.Probes, f.selects) {
			all = append(all, fault(StatusNothing, fmt.Sprintf("Process %d has moved the code of %s to memory that has no file, such as huge pages, where nothing can be traced.", f.PID, im.Path),
				"Turn that off where the program is started (--use-largepages of Node.js) or built (--hugify of BOLT).")...)
		}
	}
	return all
}

func stopped(f *Facts) []Finding {
	if !f.Process.Stopped {
		return nil
	}
	return fault(StatusFault, fmt.Sprintf("Process %d is stopped, by a signal or a debugger, and fires nothing until it continues.", f.PID),
		fmt.Sprintf("Let it continue: kill -CONT %d, or detach the debugger.", f.PID))
}
