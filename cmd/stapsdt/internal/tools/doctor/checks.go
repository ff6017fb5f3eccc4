//go:build linux

package doctor

import (
	"errors"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
)

type check struct {
	cause string
	see   string // the section of docs/nothing-shows.md
	run   func(*Facts) []Finding
}

// checks are in the order in which a user should fix things: the first fault may keep the others
// from being found.
var checks = []check{
	{"proc", "proc-or-sys-is-not-mounted", noProc},
	{"no-process", "the-process-ids-are-those-of-another-namespace", noProcess},
	{"siblings", "pgrep-found-two-processes", siblings},
	{"socket", "the-socket-cannot-be-used", listens},
	{"variable", "the-socket-cannot-be-used", variables},
	{"user", "a-capability-is-missing", otherUser},
	{"capability", "a-capability-is-missing", capability},
	{"not-loaded", "the-provider-is-not-loaded", notLoaded},
	{"name", "the-probe-has-another-name", otherName},
	{"file", "the-tracer-is-attached-to-another-file", otherFile},
	{"deleted", "the-file-was-deleted", deleted},
	{"lockdown", "lockdown", lockdown},
	{"seccomp", "a-seccomp-filter-stops-the-tracer", seccomp},
	{"sys", "proc-or-sys-is-not-mounted", noSys},
	{"uprobes", "the-kernel-is-too-old-or-has-no-uprobes", uprobes},
	{"kernel", "the-kernel-is-too-old-or-has-no-uprobes", oldKernel},
	{"architecture", "the-kernel-is-too-old-or-has-no-uprobes", architecture},
	{"site", "the-kernel-is-too-old-or-has-no-uprobes", site},
	{"overlay", "an-overlay-has-copied-the-file", overlay},
	{"twice", "a-library-is-mapped-twice", twice},
	{"moved", "the-program-has-moved-its-code", moved},
	{"stopped", "the-process-is-stopped", stopped},
	{"traced", "the-code-does-not-fire", traced},
}

// kernelOnly lists the causes that do not keep stapsdt from watching a process that listens.
const kernelOnly = " user capability not-loaded seccomp sys uprobes kernel "

// Diagnose returns the findings of the checks, in their order.
func Diagnose(f *Facts) (all []Finding) {
	toOther := errors.Is(f.Process.Socket, socket.ErrUser)
	listens := f.Process.Alive && (f.Process.Socket == nil || toOther)
	for _, c := range checks {
		for _, found := range c.run(f) {
			found.Cause, found.See = c.cause, "docs/nothing-shows.md#"+c.see
			if listens && found.Level == Fault && !(toOther && c.cause == "user") &&
				strings.Contains(kernelOnly, " "+c.cause+" ") {
				found.Level = Note
				found.Message += " This concerns only what needs the kernel, such as stack: the process listens."
			}
			all = append(all, found)
		}
		if f.Self.NoProc && len(all) > 0 {
			break // the other facts are from /proc
		}
	}
	return all
}
