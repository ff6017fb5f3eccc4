//go:build linux

package doctor

// check looks for one cause.
type check struct {
	cause string
	see   string // the section of docs/nothing-shows.md
	run   func(*Facts) []Finding
}

// checks are in the order in which a user should fix things: the first fault may keep the others
// from being found.
var checks = []check{
	{"proc", "proc-or-sys-is-not-mounted", noProc},
	{"two-processes", "pgrep-found-two-processes", twoProcesses},
	{"pid-namespace", "the-process-ids-are-those-of-another-namespace", pidNamespace},
	{"no-process", "the-process-ids-are-those-of-another-namespace", noProcess},
	{"socket", "the-socket-cannot-be-used", listens},
	{"user", "a-capability-is-missing", otherUser},
	{"capability", "a-capability-is-missing", capability},
	{"not-loaded", "the-provider-is-not-loaded", notLoaded},
	{"name", "the-probe-has-another-name", otherName},
	{"file", "the-tracer-is-attached-to-another-file", otherFile},
	{"mount-namespace", "the-program-has-its-own-file-system", mountNamespace},
	{"lockdown", "lockdown", lockdown},
	{"seccomp", "a-seccomp-filter-stops-the-tracer", seccomp},
	{"sys", "proc-or-sys-is-not-mounted", noSys},
	{"uprobes", "the-kernel-is-too-old-or-has-no-uprobes", uprobes},
	{"kernel", "the-kernel-is-too-old-or-has-no-uprobes", oldKernel},
	{"architecture", "the-program-has-32-bits", architecture},
	{"site", "the-kernel-is-too-old-or-has-no-uprobes", site},
	{"overlay", "an-overlay-has-copied-the-file", overlay},
	{"deleted", "the-file-was-deleted", deleted},
	{"replaced", "the-file-was-replaced", replaced},
	{"memory", "the-image-is-in-memory", inMemory},
	{"characters", "the-name-has-characters-that-the-tracer-does-not-take", characters},
	{"same-names", "two-images-with-the-same-names", sameNames},
	{"tracefs", "tracefs-is-not-mounted", tracefs},
	{"perf-event-paranoid", "perf_event_paranoid", paranoid},
	{"filter", "a-filter-compares-other-numbers", filter},
	{"stopped", "the-process-is-stopped", stopped},
	{"traced", "the-code-does-not-fire", traced},
}

// Diagnose returns what the checks find, in the order of checks.
func Diagnose(f *Facts) []Finding {
	var all []Finding
	for _, c := range checks {
		for _, found := range c.run(f) {
			found.Cause, found.See = c.cause, "docs/nothing-shows.md#"+c.see
			all = append(all, found)
		}
		if f.Self.NoProc && len(all) > 0 {
			break // whatever else is asked of /proc has no answer
		}
	}
	relieve(f, all)
	return all
}
