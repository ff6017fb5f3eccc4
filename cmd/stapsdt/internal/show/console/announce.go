package console

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// Announces reports whether a command prints an announcement: on a terminal, or if it is verbose.
func (c *Console) Announces(verbose bool) bool { return verbose || IsTerminal(c.Err) }

// WarnExited prints that named processes have exited, which has ended the run. says maps the PIDs
// of processes about which more is known to a sentence, or to "" if it was printed before.
func (c *Console) WarnExited(pids []int, says map[int]string) {
	var others []int
	for _, pid := range pids {
		switch sentence, known := says[pid]; {
		case !known:
			others = append(others, pid)
		case sentence != "":
			c.Warn("%s", sentence)
		}
	}
	c.warnOf(others, "exited")
}

// WarnLacking warns of the named processes that lack the selected probes.
func (c *Console) WarnLacking(pids []int, lacks func(pid int) bool) {
	has := func(pid int) bool { return !lacks(pid) }
	c.warnOf(slices.DeleteFunc(slices.Clone(pids), has), "none of the selected probes")
}

// warnOf warns that processes have something, if there are any.
func (c *Console) warnOf(pids []int, what string) {
	switch len(pids) {
	case 0:
	case 1:
		c.Warn("%s has %s", text.Processes(pids), what)
	default:
		c.Warn("%s have %s", text.Processes(pids), what)
	}
}

// Announcement returns a line with the number of probes, the number of their processes (or of their
// files if the processes are unknown), and how the command ends.
func Announcement(probes, processes, files int, duration time.Duration) string {
	of := text.Number(files, "file")
	switch {
	case processes == 1:
		of = "1 process"
	case processes > 1:
		of = fmt.Sprintf("%d processes", processes)
	}
	return fmt.Sprintf("%s of %s; %s", text.Number(probes, "probe"), of, End(duration))
}

// End describes how a command ends.
func End(duration time.Duration) string {
	if duration > 0 {
		return fmt.Sprintf("ends after %v or with Ctrl-C", duration)
	}
	return "Ctrl-C ends"
}

// WarnMissing warns of the specs of a question that select none of the names, while others select
// some. lacks is the beginning of the sentence, as in "no recording has".
func (c *Console) WarnMissing(
	q *query.Config, lacks string, names iter.Seq2[string, string],
) {
	var missing []spec.Spec
	for _, choice := range q.Specs {
		found := false
		for provider, probe := range names {
			found = found || choice.Match(provider, probe)
		}
		if !found {
			missing = append(missing, choice.Spec)
		}
	}
	if len(missing) > 0 && len(missing) < len(q.Specs) {
		c.Warn("%s %s%s", lacks, spec.Join(missing, " or "), query.Nearest(missing, names))
	}
}
