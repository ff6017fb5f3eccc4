//go:build linux

package table

import (
	"fmt"
	"slices"
	"strings"
)

// measurement is a row that one subject is asked for.
type measurement struct {
	subject, phase string
	row            string // as the subject calls it
	n              int
	times          int     // how often a round asks, of which the median counts
	per            float64 // what its answer is divided by
	unit           string  // the key of what it is asked in turn with, or ""
}

// unitFires is how often a unit is called in turn with a measurement.
const unitFires = 20_000

// key is where results have it.
func (m measurement) key() string { return m.subject + " " + m.phase + " " + m.row }

// repeats is how often fires are measured in a round. Their median is what the round gives: a virtual machine may lose its
// processor during one.
const repeats = 5

// unitOf returns the unit of fires: a reading of the clock, by two threads for what two threads do.
func unitOf(phase, row string) string {
	switch {
	case row == clock || row == getppid || row == clockTogether:
		return ""
	case phase != "idle" && strings.HasSuffix(row, "together"):
		return unit(clockTogether, phase)
	}
	return unit(clock, phase)
}

// fires returns measurements of n fires, in nanoseconds each.
func fires(subject, phase string, n int, rows ...string) (list []measurement) {
	for _, row := range rows {
		list = append(list, measurement{subject, phase, row, n, repeats, float64(n), unitOf(phase, row)})
	}
	return list
}

// bothFire is fires by both builds of the Go program.
func bothFire(phase string, n int, rows ...string) []measurement {
	return slices.Concat(fires(pureGo, phase, n, rows...), fires(withCgo, phase, n, rows...))
}

// calls returns measurements of n calls of each kind of site.
func calls(phase string, n int) (list []measurement) {
	for _, kind := range siteKinds() {
		list = append(list, fires(cSubject(kind), phase, n, "call")...)
	}
	return list
}

// units returns measurements of what figures of any machine can be compared with, in the same
// rounds as these: a reading of the clock and a system call, in nanoseconds.
func units(phase string) []measurement { return fires(pureGo, phase, 100_000, clock, getppid) }

func idleCases() []measurement {
	const n = 2_000_000
	return slices.Concat(units("idle"), bothFire("idle", n, "enabled", "zero", "two", "text", "six", "struct", "any", "func"),
		bothFire("idle", 10*n, "alone", "together"), fires(pureGo, "idle", n/4, "debug", "attrs"), calls("idle", n),
		fires(chosen(), "idle", n, "sdt", "fire", "enabled"))
}

func tracedCases() []measurement {
	const n = 50_000
	return slices.Concat(units("traced"), bothFire("traced", n, "two", "text", "struct", "any"), calls("traced", n),
		fires(chosen(), "traced", n, "sdt", "fire"))
}

// insideCases are the events that the program itself sees.
func insideCases() []measurement {
	const n = 200_000
	return slices.Concat(bothFire("inside", n, clock, clockTogether, "observedtwo", "observedtext", "recordedtwo", "recordedtext", "recordedtime", "recordedrequest", "filedtwo", "filedtext",
		"recordedtwotogether", "recordedtexttogether", "filedtwotogether", "filedtexttogether", "watchedtext"), fires(cRecorded, "inside", n, "fire", "text"),
		fires(otherClock, "inside", n, clock, "recordedtwo", "recordedtext", "filedtwo", "filedtext"), fires(otherClockC, "inside", n, "fire", "text"))
}

// outsideCases are the events that another process sees.
func outsideCases() []measurement {
	const n = 200_000
	return slices.Concat(bothFire("outside", n, clock, clockTogether, "outsidetwo", "outsidetext", "outsidetwotogether", "outsidetexttogether"),
		fires(otherClock, "outside", n, clock, "outsidetwo", "outsidetext"), bothFire("outside", 10*n, "two"), fires(lttngSubject, "outside", n, "two", "text", "twotogether", "texttogether"))
}

// loads returns measurements of loading n probes, in microseconds; their phase
// is the number.
func loads(subject string, n, times int, rows ...string) (list []measurement) {
	number := fmt.Sprint(n)
	for _, row := range rows {
		list = append(list, measurement{subject, number, row, n, times, 1000, unit(getppid, loadPhase(number))})
	}
	return list
}

// loadPhase returns the phase of the units of a load of that number.
func loadPhase(number string) string {
	switch number {
	case fmt.Sprint(many), fmt.Sprint(most), fmt.Sprint(startMiB):
		return "large"
	}
	return "loads"
}

// bothLoad is loads by both builds of the Go program.
func bothLoad(n, times int, rows ...string) []measurement {
	return slices.Concat(loads(pureGo, n, times, rows...), loads(withCgo, n, times, rows...))
}

// The sizes of large providers. They are written out in the keys and names of
// table_test.go and limits.txt.
const (
	many = 20_000
	most = 100_000
)

// startMiB is the default size of a recording that STAPSDT_RECORD requests.
const startMiB = 16

func loadCases() []measurement {
	return slices.Concat(units("loads"), bothLoad(1, 21, "loadnew", "loadexisting", "unload", "reload"), bothLoad(100, 5, "loadexisting"),
		bothLoad(1000, 3, "loadexisting"), loads(chosen(), 1, 21, "loadnew", "loadmemory", "unload", "reload"), loads(chosen(), 100, 5, "loadnew"),
		loads(chosen(), 1000, 3, "loadnew"))
}

// largeCases are those that take long. Each is asked three times in a row: at the
// first, the memory that it takes is often new to the process, which costs more
// than the work that is done with it.
func largeCases() []measurement {
	list := slices.Concat(units("large"), bothLoad(many, 3, "loadnew", "loadexisting", "unload", "reload"), bothLoad(most, 3, "loadexisting"),
		loads(chosen(), many, 3, "loadnew", "unload", "reload"), loads(chosen(), most, 3, "loadnew"))
	for _, n := range []int{many, most} {
		list = append(list, bothLoad(n, 3, "define", "definenamed", "definelate", "sites", "sitesnamed", "siteslate")...)
	}
	list = append(list, bothLoad(startMiB, 3, "record", "fallocate")...)
	sizes := slices.Concat(bothLoad(many, 1, "mapped", "file"), loads(chosen(), many, 1, "mapped"))
	for i := range sizes {
		sizes[i].per, sizes[i].unit = 1, "" // bytes
	}
	return append(list, sizes...)
}
