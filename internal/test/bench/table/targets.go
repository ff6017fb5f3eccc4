//go:build linux

package main

import (
	"fmt"
	"io"
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
		list.load(r, build)
	}
	for _, row := range []string{"1 loadnew", "1 loadexisting", "1 unload", "1 reload", "20000 loadnew", "20000 loadexisting", "20000 unload"} {
		list.add("cgo beside go: "+row, 2, "×", r.ratio(withCgo+" "+row, pureGo+" "+row))
	}
	list.library(r, chosen())
	list.add("size added to a static hello, stripped", 250, "KB", r.median(addedStripped))
	list.add("size added to a static hello, mapped when it runs", 250, "KB", r.median(addedLoaded))
	list.add("size that the names of twenty probes add to a program, stripped", maxNames, "KB", r.median(addedNames))
	list.add("our packages that run code before main", 0, "", r.median(addedInit))
	return list
}

type targetList []target

func (l *targetList) add(what string, max float64, unit string, got float64) {
	*l = append(*l, target{what, max, unit, got})
}

func (l *targetList) idle(r results, build string) {
	at := build + " idle "
	l.add(build+": Enabled, idle", 0.5, "ns", r.median(at+"enabled"))
	l.add(build+": Fire, idle, no argument", 0.7, "ns", r.median(at+"zero"))
	l.add(build+": Fire, idle, two integers", 0.7, "ns", r.median(at+"two"))
	l.add(build+": Fire, idle, a string and an integer", 0.7, "ns", r.median(at+"text"))
	l.add(build+": Fire, idle, six arguments, three strings", 0.7, "ns", r.median(at+"six"))
	l.add(build+": ProbeOf.Fire, idle, a string and an integer", 0.7, "ns", r.median(at+"struct"))
	l.add(build+": variadic Fire, idle, two integers", 2.5, "ns", r.median(at+"any"))
	for _, row := range idleRows {
		l.add(build+": idle, "+row+", allocations", 0, "", r.median(at+"allocs "+row))
	}
	// "No longer", and the noise of two processors that others use too.
	l.add(build+": two goroutines, each beside one alone", 1.1, "×", r.ratio(at+"together", at+"alone"))
}

func (l *targetList) traced(r results, build string) {
	at := build + " traced "
	l.add(build+": Fire, traced, two integers, beside C's call of such a site", 1.10, "×", r.ratio(at+"two", chosen()+" traced call"))
	l.add(build+": a string of 16 bytes, traced, beside an integer", 30, "ns more", r.difference(at+"text", at+"two"))
	l.add(build+": ProbeOf.Fire, traced, beside Probe2", 20, "ns more", r.difference(at+"struct", at+"text"))
	l.add(build+": variadic Fire, traced, beside the typed", 20, "ns more", r.difference(at+"any", at+"two"))
	for _, row := range tracedRows {
		l.add(build+": traced, "+row+", allocations", 0, "", r.median(at+"allocs "+row))
	}
}

// inside adds what is promised of events that the program itself sees, beside a reading of
// the clock in the same round: each event has its time.
func (l *targetList) inside(r results, build string) {
	at := build + " inside "
	for _, c := range []struct {
		what string
		max  float64
	}{{"observed", 60}, {"recorded", 80}} {
		l.add(build+": "+c.what+", two integers, beside the clock", c.max, "ns more", r.difference(at+c.what+"two", at+"clock"))
		l.add(build+": "+c.what+", a string and an integer, beside the clock", c.max, "ns more", r.difference(at+c.what+"text", at+"clock"))
	}
	for _, row := range insideRows {
		l.add(build+": "+row+", allocations", 0, "", r.median(at+"allocs "+row))
	}
}

func (l *targetList) load(r results, build string) {
	l.add(build+": load one probe, new file", 120, "µs", r.median(build+" 1 loadnew"))
	l.add(build+": load one probe, file is there", 60, "µs", r.median(build+" 1 loadexisting"))
	l.add(build+": unload one probe", 60, "µs", r.median(build+" 1 unload"))
	l.add(build+": reload one probe", 100, "µs", r.median(build+" 1 reload"))
	l.add(build+": load 20,000 probes, new file", 25_000, "µs", r.median(build+" 20000 loadnew"))
	l.add(build+": load 20,000 probes, file is there", 25_000, "µs", r.median(build+" 20000 loadexisting"))
	l.add(build+": unload 20,000 probes", 25_000, "µs", r.median(build+" 20000 unload"))
	l.add(build+": linear: a probe of 100,000 beside one of 20,000", maxCurve, "×",
		r.ratio(build+" 100000 loadexisting", build+" 20000 loadexisting")*many/most)
	l.add(build+": memory of 20,000 probes beside their file", 1, "×", r.ratio(build+" 20000 mapped", build+" 20000 file"))
}

// library adds what is promised of the C library.
func (l *targetList) library(r results, c string) {
	l.add("C: probeIsEnabled, idle", 3, "ns", r.median(c+" idle enabled"))
	l.add("C: probeFire, idle", 3, "ns", r.median(c+" idle fire"))
	l.add("C: load one probe, new file", 120, "µs", r.median(c+" 1 loadnew"))
	l.add("C: load one probe, memory", 120, "µs", r.median(c+" 1 loadmemory"))
	l.add("C: unload one probe", 60, "µs", r.median(c+" 1 unload"))
	l.add("C: reload one probe", 100, "µs", r.median(c+" 1 reload"))
	l.add("C: load 20,000 probes, new file", 25_000, "µs", r.median(c+" 20000 loadnew"))
	l.add("C: unload 20,000 probes", 25_000, "µs", r.median(c+" 20000 unload"))
	l.add("C: linear: a probe of 100,000 beside one of 20,000", maxCurve, "×", r.ratio(c+" 100000 loadnew", c+" 20000 loadnew")*many/most)
	l.add("C: memory of 20,000 probes beside their file", 1, "×", r.ratio(c+" 20000 mapped", pureGo+" 20000 file"))
}

// maxNames is what names may add to a program of twenty probes, in KB.
const maxNames = 40

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
