//go:build linux

package table

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commandRow is a row of the table of what the command takes.
type commandRow struct {
	what, key string // the key is "command" and a word
	format    func(float64) string
	clock     bool // whether the table has its ratio to a reading of the clock
}

// commandPart is a kind of the command's work.
type commandPart struct {
	rows []commandRow
	// start returns a function that each round calls, and which adds one figure for each row.
	start func(t testing.TB, r results) (measure func())
}

// commandParts are the parts in the order of the table. Each is in a file of its own.
var commandParts = []commandPart{
	readingPart, showingPart, recordingPart, waitingPart, attachingPart, scrapePart,
}

// commandClock is the reading of the clock in the same rounds.
const commandClock = pureGo + " command " + clock

// measureCommand measures all parts in a number of rounds, each between two readings of the clock.
func (r results) measureCommand(t testing.TB, rounds int) {
	all := subjects{}
	all.start(t, pureGo, exec.Command(filepath.Join(*work, "subject-"+pureGo)))
	var measures []func()
	for _, part := range commandParts {
		measures = append(measures, part.start(t, r))
	}
	clocked := func() float64 {
		r.measure(t, all, fires(pureGo, "command", 100_000, clock), 1)
		list := r[commandClock]
		return list[len(list)-1]
	}
	for range rounds {
		before := clocked()
		for i, part := range commandParts {
			measures[i]()
			after := clocked()
			for _, one := range part.rows {
				if list := r[one.key]; one.clock {
					paired := pairedKey(one.key, commandClock)
					r[paired] = append(r[paired], list[len(list)-1]/((before+after)/2))
				}
			}
			before = after
		}
	}
	all.end(t, pureGo)
}

// command returns their table.
func (r results) command() string {
	var s strings.Builder
	s.WriteString("| what the command takes | processor time | clock |\n|---|--:|--:|\n")
	for _, part := range commandParts {
		for _, one := range part.rows {
			beside := ""
			if one.clock {
				beside = commandClock
			}
			row(&s, one.what, r.cells(one.key, one.format, beside))
		}
	}
	return s.String()
}

// stapsdtCommand returns the command with these arguments.
func stapsdtCommand(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(*work, "stapsdt"), args...)
}
