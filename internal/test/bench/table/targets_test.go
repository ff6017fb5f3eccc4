//go:build linux

package table

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

// target is a promise: a figure, and the most that it may be.
type target struct {
	what string
	max  float64
	unit string
	got  float64
}

// targets are all the promises, for both builds and for the C library. Those of
// the traced figures compare what was measured in the same round.
func (r results) targets() []target {
	var list targetList
	for _, build := range []string{pureGo, withCgo} {
		list.idle(r, build)
		list.traced(r, build)
		list.inside(r, build)
		list.outside(r, build)
		list.load(r, build)
	}
	for _, row := range []string{"1 loadnew", "1 loadexisting", "1 unload", "1 reload", "20000 loadnew", "20000 loadexisting", "20000 unload"} {
		list.add("cgo beside go: "+row, 3, "×", r.ratio(withCgo+" "+row, pureGo+" "+row))
	}
	list.library(r, chosen())
	list.add("size added to a static hello, stripped", maxHello, "KB", r.median(addedStripped))
	list.add("size added to a static hello, mapped when it runs", maxHello, "KB", r.median(addedLoaded))
	list.add("size that the names of twenty probes add to a program, stripped", maxNames, "KB", r.median(addedNames))
	list.add("our packages that run code before main", 0, "", r.median(addedInit))
	return list
}

type targetList []target

func (l *targetList) add(what string, max float64, unit string, got float64) {
	*l = append(*l, target{what, max, unit, got})
}

// beside adds a ratio to another figure of the same rounds.
func (l *targetList) beside(r results, what string, max float64, key, to string) {
	l.add(what, max, "×", r.ratio(key, to))
}

// The units that figures are compared with.
const (
	clock         = "clock"         // a reading of the clock
	clockTogether = "clocktogether" // the same by two threads at once
	getppid       = "getppid"       // a system call
)

// calls returns how many calls of getppid took as long as what key, in microseconds, did for
// each of so many probes.
func (r results) calls(key, phase string, probes float64) float64 {
	return 1000 * r.ratio(key, unit(getppid, phase)) / probes
}

// unit returns the key of a unit that was measured in the same rounds as a phase.
func unit(name, phase string) string { return pureGo + " " + phase + " " + name }

func (l *targetList) idle(r results, build string) {
	at, call := build+" idle ", chosen()+" idle call"
	l.beside(r, build+": Enabled, idle, beside C's call of such a site", 0.6, at+"enabled", call)
	for _, row := range []string{"zero", "two", "text", "struct", "six"} {
		l.beside(r, build+": Fire, idle, "+row+", beside C's call of such a site", 0.7, at+row, call)
	}
	l.beside(r, build+": variadic Fire, idle, two integers, beside C's call of such a site", 1.5, at+"any", call)
	for _, row := range []string{"enabled", "zero", "two", "text", "struct", "six"} {
		l.beside(r, build+": idle, "+row+", beside the clock", 0.05, at+row, unit(clock, "idle"))
	}
	for _, row := range idleRows {
		l.add(build+": idle, "+row+", allocations", 0, "", r.median(at+"allocs "+row))
	}
	// "No longer", and the noise of two processors that others use too.
	l.beside(r, build+": two goroutines, each beside one alone", 1.1, at+"together", at+"alone")
}

func (l *targetList) traced(r results, build string) {
	at := build + " traced "
	l.beside(r, build+": Fire, traced, two integers, beside C's call of such a site", 1.25, at+"two", chosen()+" traced call")
	l.beside(r, build+": a string of 16 bytes, traced, beside an integer", 1.2, at+"text", at+"two")
	l.beside(r, build+": ProbeOf.Fire, traced, beside Probe2", 1.1, at+"struct", at+"text")
	l.beside(r, build+": variadic Fire, traced, beside the typed", 1.1, at+"any", at+"two")
	for _, row := range tracedRows {
		l.add(build+": traced, "+row+", allocations", 0, "", r.median(at+"allocs "+row))
	}
}

// inside adds what is promised of events that the program itself sees, beside a reading of
// the clock in the same round: each event has its time. Two threads are compared with two that
// read the clock.
func (l *targetList) inside(r results, build string) {
	at := build + " inside "
	l.beside(r, build+": observedtwo, beside the clock", 3, at+"observedtwo", at+clock)
	l.beside(r, build+": observedtext, beside the clock", 4, at+"observedtext", at+clock)
	maxTwo, maxText := recordedMax()
	for _, where := range []string{"recorded", "filed"} {
		for together, unit := range map[string]string{"": clock, "together": clockTogether} {
			l.beside(r, build+": "+where+"two"+together+", beside the clock", maxTwo, at+where+"two"+together, at+unit)
			l.beside(r, build+": "+where+"text"+together+", beside the clock", maxText, at+where+"text"+together, at+unit)
		}
	}
	for _, row := range insideRows {
		l.add(build+": "+row+", allocations", 0, "", r.median(at+"allocs "+row))
	}
}

// outside adds what is promised of events that another process sees.
func (l *targetList) outside(r results, build string) {
	at := build + " outside "
	maxTwo, maxText := recordedMax()
	for together, unit := range map[string]string{"": clock, "together": clockTogether} {
		l.beside(r, build+": outsidetwo"+together+", beside the clock", maxTwo, at+"outsidetwo"+together, at+unit)
		l.beside(r, build+": outsidetext"+together+", beside the clock", maxText, at+"outsidetext"+together, at+unit)
		l.beside(r, build+": outsidetwo"+together+", beside LTTng-UST", 1, at+"outsidetwo"+together, lttngSubject+" outside two"+together)
		l.beside(r, build+": outsidetext"+together+", beside LTTng-UST", 1, at+"outsidetext"+together, lttngSubject+" outside text"+together)
	}
	// Both beside the clock of their rounds, which are far apart.
	before := r.ratio(build+" idle two", unit(clock, "idle"))
	l.add(build+": idle Fire beside one before the program listens", 1.1, "×", r.ratio(at+"two", unit(clock, "outside"))/before)
	for _, row := range outsideRows {
		l.add(build+": "+row+", allocations", 0, "", r.median(at+"allocs "+row))
	}
}

// recordedMax returns how many readings of the clock a recorded event may take, with two integers
// and with a string. Where the processor's counter is not the recordings' clock, each event reads the
// system's.
func recordedMax() (two, text float64) {
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if runtime.GOARCH == "amd64" && err == nil && string(source) == "tsc\n" {
		return 1, 1.5
	}
	return 4, 5
}

func (l *targetList) load(r results, build string) {
	for row, max := range map[string]float64{"loadnew": maxLoad, "loadexisting": maxLoad / 2, "unload": maxLoad / 2, "reload": maxLoad} {
		l.add(build+": "+row+", one probe, beside getppid", max, "×", r.calls(build+" 1 "+row, "loads", 1))
	}
	for _, row := range []string{"loadnew", "loadexisting", "unload"} {
		l.add(build+": "+row+", 20,000 probes, each beside getppid", maxProbe, "×", r.calls(build+" 20000 "+row, "large", many))
	}
	l.add(build+": linear: a probe of 100,000 beside one of 20,000", maxCurve, "×",
		r.ratio(build+" 100000 loadexisting", build+" 20000 loadexisting")*many/most)
	l.beside(r, build+": memory of 20,000 probes beside their file", 1, build+" 20000 mapped", build+" 20000 file")
}

// library adds what is promised of the C library.
func (l *targetList) library(r results, c string) {
	call := c + " idle call"
	l.beside(r, "C: probeIsEnabled, idle, beside a call of such a site", 1.5, c+" idle enabled", call)
	l.beside(r, "C: probeFire, idle, beside a call of such a site", 1.5, c+" idle fire", call)
	for _, row := range []string{"loadnew", "loadmemory", "unload", "reload"} {
		l.add("C: "+row+", one probe, beside getppid", maxLoad, "×", r.calls(c+" 1 "+row, "loads", 1))
	}
	for _, row := range []string{"loadnew", "unload"} {
		l.add("C: "+row+", 20,000 probes, each beside getppid", maxProbe, "×", r.calls(c+" 20000 "+row, "large", many))
	}
	l.add("C: linear: a probe of 100,000 beside one of 20,000", maxCurve, "×", r.ratio(c+" 100000 loadnew", c+" 20000 loadnew")*many/most)
	l.add("C: memory of 20,000 probes beside their file", 1, "×", r.ratio(c+" 20000 mapped", pureGo+" 20000 file"))
}

// maxLoad bounds loading a probe, and maxProbe each of 20,000, in calls of getppid.
const (
	maxLoad  = 1500
	maxProbe = 30
)

// maxHello is what the package may add to a program that has nothing else, in KB. A fifth of it is
// package fmt and what that needs, which most programs have already.
const maxHello = 400

// maxNames is what names may add to a program of twenty probes, in KB.
const maxNames = 4

// maxCurve is what still counts as linear: the image of 100,000 probes is larger
// than a processor's own caches, which makes each dearer. What is quadratic would
// be at five.
const maxCurve = 2

// report writes each target with ok or FAILED, and tells whether all were met.
func report(w io.Writer, list []target) (met bool) {
	met = true
	fmt.Fprintln(w)
	for _, t := range list {
		verdict := "ok    "
		if !(t.got <= t.max) { // what is no number is not met
			verdict, met = "FAILED", false
		}
		fmt.Fprintf(w, "%s  %-68s %7.4g, at most %g %s\n", verdict, t.what, t.got, t.max, t.unit)
	}
	return met
}
