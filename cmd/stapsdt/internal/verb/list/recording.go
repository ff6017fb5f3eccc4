//go:build linux

package list

import (
	"bufio"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// recordingLines describes the files to which some processes record.
func (l *lister) recordingLines(pids []int) (lines []string) {
	for _, r := range l.recordingOf(pids) {
		lines = append(lines, r.Text())
	}
	return lines
}

// findRecordings finds the recordings of processes, and warns if one that is requested is missing.
func (l *lister) findRecordings(to *console.Console, pids []int) {
	l.recording = recordings.Of(pids)
	for _, pid := range recordings.Missing(pids, l.recording) {
		to.Warn("%s", recordings.MissingText(pid))
	}
}

// recordingOf returns the recordings of some processes.
func (l *lister) recordingOf(pids []int) (all []recordings.Recording) {
	for _, r := range l.recording {
		if slices.Contains(pids, r.PID) {
			all = append(all, r)
		}
	}
	return all
}

// Recorded shows recordings without their probes.
func Recorded(to *console.Console, all []recordings.Recording, format query.Format) error {
	out := bufio.NewWriter(to.Out)
	encoder := render.NewEncoder(out)
	for i := range all {
		if format.IsJSON() {
			_ = encoder.Encode(&all[i])
		} else {
			fmt.Fprintln(out, render.Printable(all[i].Text()))
		}
	}
	return out.Flush()
}
