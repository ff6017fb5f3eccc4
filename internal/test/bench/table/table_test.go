//go:build linux

package table

import (
	"fmt"
	"strings"
)

// line is a row of the table of events: what is fired, and by whom.
type line struct{ what, subject, row string }

// eventLines are the rows of the first table, in order. What was not measured in
// a phase, or not on this architecture, is left out.
func eventLines() []line {
	list := []line{
		{"**Go**, `Probe2.Fire`, two integers", pureGo, "two"},
		{"Go, cgo build", withCgo, "two"},
		{"**Go**, `Probe2.Fire`, a string of 16 bytes and an integer", pureGo, "text"},
		{"Go, cgo build", withCgo, "text"},
		{"Go, `ProbeOf.Fire`, a string of 16 bytes and an integer", pureGo, "struct"},
		{"**Go**, `Probe.Fire(...any)`, two integers", pureGo, "any"},
		{"Go, cgo build", withCgo, "any"},
		{"Go, `Probe6.Fire`, three strings and three integers", pureGo, "six"},
		{"Go, `FireFunc`", pureGo, "func"},
		{"Go, `Enabled`", pureGo, "enabled"},
		{"**C**, our `probeFire`, two integers", chosen(), "fire"},
		{"C, our `probeIsEnabled`", chosen(), "enabled"},
		{"C, `<sys/sdt.h>`, `DTRACE_PROBE2`", chosen(), "sdt"},
	}
	for _, kind := range siteKinds() {
		what := "C, a call of a " + nopNames[kind]
		if cSubject(kind) == chosen() {
			what += ", which is this kernel's"
		}
		list = append(list, line{what, cSubject(kind), "call"})
	}
	return append(list,
		line{"`log/slog`, `Debug` with two integers, level off", pureGo, "debug"},
		line{"`log/slog`, `LogAttrs` with two integers, level off", pureGo, "attrs"},
	)
}

var nopNames = map[string]string{"nop1": "one-byte nop", "nop5": "five-byte nop", "nop10": "ten-byte nop", "nop4": "nop"}

// probes returns the tables of probes.
func (r results) probes() string {
	var s strings.Builder
	fmt.Fprintf(&s, "*clock* is the ratio to a reading of the clock (`time.Since`, %s), *getppid* to a system call (%s), *C* to a C program's call of\n"+
		"the nop of this kernel, and *Go* to the first column.\n", nanoseconds(r.median(unit(clock, "idle"))), nanoseconds(r.median(unit(getppid, "idle"))))
	for _, part := range []func(*strings.Builder){r.events, r.inside, r.outside, r.loads, r.sizes} {
		s.WriteString("\n")
		part(&s)
	}
	return s.String()
}

func (r results) events(s *strings.Builder) {
	s.WriteString("| an event | idle | clock | C | traced, `count()` | clock | getppid | C |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, l := range eventLines() {
		row(s, l.what,
			r.cells(l.subject+" idle "+l.row, nanoseconds, unit(clock, "idle"), chosen()+" idle call"),
			r.cells(l.subject+" traced "+l.row, nanoseconds, unit(clock, "traced"), unit(getppid, "traced"), chosen()+" traced call"))
	}
}

func nanoseconds(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.2f ns", v)
	}
	return fmt.Sprintf("%.0f ns", v)
}

// insideLines are the rows of the second table: what the program does with the events of its
// own probes.
var insideLines = []struct{ what, row string }{
	{"one reading of the monotonic clock, `time.Since`", clock},
	{"**observed**, two integers", "observedtwo"},
	{"observed, a string of 16 bytes and an integer", "observedtext"},
	{"**recorded** in memory, two integers", "recordedtwo"},
	{"recorded in memory, a string of 16 bytes and an integer", "recordedtext"},
	{"recorded in memory, a `time.Time` and an integer", "recordedtime"},
	{"recorded in memory, a request that `httpprobe` reports with two events", "recordedrequest"},
	{"**recorded** in a file, two integers", "filedtwo"},
	{"recorded in a file, a string of 16 bytes and an integer", "filedtext"},
	{"two threads at once: one reading of the monotonic clock", clockTogether},
	{"two threads at once: recorded in memory, two integers", "recordedtwotogether"},
	{"two threads at once: recorded in memory, a string of 16 bytes and an integer", "recordedtexttogether"},
	{"two threads at once: recorded in a file, two integers", "filedtwotogether"},
	{"two threads at once: recorded in a file, a string of 16 bytes and an integer", "filedtexttogether"},
	{"watched with `debugprobe`, a string of 16 bytes and an integer, rejected by a filter", "watchedtext"},
}

// recordedInC maps such rows to those of the C program that does the same.
var recordedInC = map[string]string{"filedtwo": "fire", "filedtext": "text"}

func (r results) inside(s *strings.Builder) {
	s.WriteString("| an event that the program itself sees | Go | clock | Go, cgo build | clock | C | clock |\n|---|--:|--:|--:|--:|--:|--:|\n")
	whole := func(v float64) string { return fmt.Sprintf("%.0f ns", v) }
	for _, l := range insideLines {
		row(s, l.what, r.cells(pureGo+" inside "+l.row, whole, unit(clock, "inside")),
			r.cells(withCgo+" inside "+l.row, whole, unit(clock, "inside")),
			r.cells(cRecorded+" inside "+recordedInC[l.row], whole, unit(clock, "inside")))
	}
}

// outsideLine is a row of the third table: what another process sees. The kernel's were measured in other rounds.
type outsideLine struct{ what, subject, phase, row string }

func outsideLines() []outsideLine {
	const two, text, both = "two integers", "a string of 16 bytes and an integer", "two threads at once: "
	list := []outsideLine{
		{"one reading of the monotonic clock, `time.Since`", pureGo, "outside", clock},
		{"none: an idle fire while the program listens, two integers", pureGo, "outside", "two"},
	}
	for _, l := range []struct{ what, row string }{{"**by a socket**, " + two, "outsidetwo"}, {"by a socket, " + text, "outsidetext"}} {
		list = append(list, outsideLine{l.what, pureGo, "outside", l.row}, outsideLine{l.what + ", cgo build", withCgo, "outside", l.row})
	}
	return append(list,
		outsideLine{"by LTTng-UST, " + two, lttngSubject, "outside", "two"},
		outsideLine{"by LTTng-UST, " + text, lttngSubject, "outside", "text"},
		outsideLine{"by the kernel, which only counts, " + two, pureGo, "traced", "two"},
		outsideLine{"by the kernel, which only counts, " + text, pureGo, "traced", "text"},
		outsideLine{both + "one reading of the monotonic clock", pureGo, "outside", clockTogether},
		outsideLine{both + "by a socket, " + two, pureGo, "outside", "outsidetwotogether"},
		outsideLine{both + "by a socket, " + text, pureGo, "outside", "outsidetexttogether"},
		outsideLine{both + "by LTTng-UST, " + two, lttngSubject, "outside", "twotogether"},
		outsideLine{both + "by LTTng-UST, " + text, lttngSubject, "outside", "texttogether"},
	)
}

func (r results) outside(s *strings.Builder) {
	s.WriteString("| an event that another process sees | time | clock |\n|---|--:|--:|\n")
	for _, l := range outsideLines() {
		row(s, l.what, r.cells(l.subject+" "+l.phase+" "+l.row, nanoseconds, unit(clock, l.phase)))
	}
}

type loadLine struct{ what, row, c string }

// loadLines are the rows of the fourth table: what is done, and which row of the
// C program is the same.
var loadLines = []loadLine{
	{"load, 1 probe, new file", "1 loadnew", "1 loadnew"},
	{"load, 1 probe, the file is there", "1 loadexisting", ""},
	{"load, 1 probe, in memory", "", "1 loadmemory"},
	{"unload, 1 probe", "1 unload", "1 unload"},
	{"reload, 1 probe", "1 reload", "1 reload"},
	{"load, 100 probes", "100 loadexisting", "100 loadnew"},
	{"load, 1,000 probes", "1000 loadexisting", "1000 loadnew"},
	{"load, 20,000 probes", "20000 loadexisting", "20000 loadnew"},
	{"load, 20,000 probes, new file", "20000 loadnew", "20000 loadnew"},
	{"unload, 20,000 probes", "20000 unload", "20000 unload"},
	{"reload, 20,000 probes", "20000 reload", "20000 reload"},
	{"load, 100,000 probes", "100000 loadexisting", "100000 loadnew"},
	{"define, 20,000 probes", "20000 define", ""},
	{"define, 20,000 probes with names of their arguments", "20000 definenamed", ""},
	{"define, 100,000 probes", "100000 define", ""},
	{"define, 100,000 probes with names of their arguments", "100000 definenamed", ""},
	{"define, 100,000 sites of one probe", "100000 sites", ""},
	{"define, 100,000 sites of one probe with names of its arguments", "100000 sitesnamed", ""},
	{"`STAPSDT_RECORD`, a recording of 16 MiB", "16 record", ""},
	{"of this, to reserve its space", "16 fallocate", ""},
}

// phase is the one whose units were measured in the same rounds.
func (l loadLine) phase() string {
	number, _, _ := strings.Cut(l.row, " ")
	return loadPhase(number)
}

func (r results) loads(s *strings.Builder) {
	s.WriteString("| a provider | Go | getppid | Go, cgo build | Go | C | Go |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, l := range loadLines {
		base, own := pureGo+" "+l.row, " | |"
		if call := unit(getppid, l.phase()); r.steady(base, call) {
			own = fmt.Sprintf(" %s | %.0f |", microseconds(r.median(base)), r.calls(base, call))
		}
		row(s, l.what, own, r.cells(withCgo+" "+l.row, microseconds, base),
			r.cells(chosen()+" "+l.c, microseconds, base))
	}
	mapped := func(subject, what string) string { return kilobytes(r.median(subject+" 20000 "+what) / 1000) }
	row(s, "mapped, of the file of 20,000 probes", fmt.Sprintf(" %s of %s | | %s | | %s | |", mapped(pureGo, "mapped"),
		mapped(pureGo, "file"), mapped(withCgo, "mapped"), mapped(chosen(), "mapped")))
}

func kilobytes(v float64) string { return fmt.Sprintf("%.0f KB", v) }

func microseconds(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.1f µs", v)
	case v < 1000:
		return fmt.Sprintf("%.0f µs", v)
	}
	return fmt.Sprintf("%.1f ms", v/1000)
}

func (r results) sizes(s *strings.Builder) {
	fmt.Fprintf(s, "A static hello grows by %.0f KB stripped, %.0f KB with symbols and DWARF; %.0f KB more are mapped when it runs. ",
		r.median(addedStripped), r.median(addedUnstripped), r.median(addedLoaded))
	fmt.Fprintf(s, "With `probeenv.Load` it grows by %.0f KB, stripped. ", r.median(addedEnv))
	fmt.Fprintf(s, "The names of the 70 arguments of twenty probes add %.0f KB. ", r.median(addedNames))
	packages := "None"
	if n := r.median(addedInit); n > 0 {
		packages = fmt.Sprint(n)
	}
	fmt.Fprintf(s, "%s of its packages run code before main; its imports make %.0f allocation(s) then.\n",
		packages, r.median(addedInitAllocs))
}
