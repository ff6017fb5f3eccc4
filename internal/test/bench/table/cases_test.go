//go:build linux

package table

import "fmt"

// measurement is a row that one subject is asked for.
type measurement struct {
	subject, phase string
	row            string // as the subject calls it
	n              int
	times          int     // how often a round asks, of which the median counts
	per            float64 // what its answer is divided by
}

// key is where results have it.
func (m measurement) key() string { return m.subject + " " + m.phase + " " + m.row }

// fires returns measurements of n fires a round, in nanoseconds each.
func fires(subject, phase string, n int, rows ...string) []measurement {
	var list []measurement
	for _, row := range rows {
		list = append(list, measurement{subject, phase, row, n, 1, float64(n)})
	}
	return list
}

// allocations returns measurements of what n fires allocate.
func allocations(subject, phase string, n int, rows ...string) []measurement {
	var list []measurement
	for _, row := range rows {
		list = append(list, measurement{subject, phase, "allocs " + row, n, 1, 1})
	}
	return list
}

// The rows that allocate nothing: while there is no tracer, while there is one, and while
// the program itself sees the events.
var (
	idleRows   = []string{"enabled", "zero", "two", "text", "six", "struct", "any", "func"}
	tracedRows = []string{"two", "text", "struct", "any"}
	insideRows = []string{"observedtwo", "observedtext", "recordedtwo", "recordedtext", "filedtwo", "filedtext"}
	// outsideRows are seen by another process.
	outsideRows = []string{"outsidetwo", "outsidetext"}
	// togetherRows are those of two threads at once.
	togetherRows = []string{clockTogether, "recordedtwotogether", "recordedtexttogether", "filedtwotogether", "filedtexttogether"}
)

// units returns measurements of what figures of any machine can be compared with, in the same
// rounds as these: a reading of the clock and a system call, in nanoseconds.
func units(phase string) []measurement {
	return fires(pureGo, phase, 100_000, "clock", "getppid")
}

func idleCases() []measurement {
	const n = 2_000_000
	list := units("idle")
	for _, subject := range []string{pureGo, withCgo} {
		list = append(list, fires(subject, "idle", n, idleRows...)...)
		list = append(list, fires(subject, "idle", 10*n, "alone", "together")...)
		list = append(list, allocations(subject, "idle", 10_000, idleRows...)...)
	}
	list = append(list, fires(pureGo, "idle", n/4, "debug", "attrs")...)
	for _, kind := range siteKinds() {
		list = append(list, fires(cSubject(kind), "idle", n, "call")...)
	}
	return append(list, fires(chosen(), "idle", n, "sdt", "fire", "enabled")...)
}

func tracedCases() []measurement {
	const n = 50_000
	list := units("traced")
	for _, subject := range []string{pureGo, withCgo} {
		list = append(list, fires(subject, "traced", n, tracedRows...)...)
	}
	for _, kind := range siteKinds() {
		list = append(list, fires(cSubject(kind), "traced", n, "call")...)
	}
	list = append(list, fires(chosen(), "traced", n, "sdt", "fire")...)
	for _, subject := range []string{pureGo, withCgo} {
		list = append(list, allocations(subject, "traced", n, tracedRows...)...)
	}
	return list
}

// insideCases are the events that the program itself sees.
func insideCases() []measurement {
	const n = 200_000
	list := fires(pureGo, "inside", n, "getppid")
	for _, subject := range []string{pureGo, withCgo} {
		list = append(list, fires(subject, "inside", n, "clock")...)
		list = append(list, fires(subject, "inside", n, insideRows...)...)
		list = append(list, fires(subject, "inside", n, togetherRows...)...)
		list = append(list, fires(subject, "inside", n, "watchedtext")...)
		list = append(list, allocations(subject, "inside", 10_000, insideRows...)...)
	}
	return append(list, fires(cRecorded, "inside", n, "fire", "text")...)
}

// outsideCases are the events that another process sees.
func outsideCases() []measurement {
	const n = 200_000
	var list []measurement
	for _, subject := range []string{pureGo, withCgo} {
		list = append(list, fires(subject, "outside", n, clock, clockTogether)...)
		list = append(list, fires(subject, "outside", n, outsideRows...)...)
		list = append(list, fires(subject, "outside", 10*n, "two")...)
		list = append(list, fires(subject, "outside", n, "outsidetwotogether", "outsidetexttogether")...)
		list = append(list, allocations(subject, "outside", 10_000, outsideRows...)...)
	}
	return append(list, fires(lttngSubject, "outside", n, lttngRows...)...)
}

// lttngRows are the rows of the program with tracepoints.
var lttngRows = []string{"two", "text", "twotogether", "texttogether"}

// loads returns measurements of loading n probes, in microseconds; their phase
// is the number.
func loads(subject string, n, times int, rows ...string) []measurement {
	var list []measurement
	for _, row := range rows {
		list = append(list, measurement{subject, fmt.Sprint(n), row, n, times, 1000})
	}
	return list
}

// The sizes of large providers. They are written out in the keys and names of
// table_test.go and limits.txt.
const (
	many = 20_000
	most = 100_000
)

func loadCases() []measurement {
	list := units("loads")
	for _, subject := range []string{pureGo, withCgo} {
		list = append(list, loads(subject, 1, 21, "loadnew", "loadexisting", "unload", "reload")...)
		list = append(list, loads(subject, 100, 5, "loadexisting")...)
		list = append(list, loads(subject, 1000, 3, "loadexisting")...)
	}
	list = append(list, loads(chosen(), 1, 21, "loadnew", "loadmemory", "unload", "reload")...)
	list = append(list, loads(chosen(), 100, 5, "loadnew")...)
	return append(list, loads(chosen(), 1000, 3, "loadnew")...)
}

// largeCases are those that take long. Each is asked three times in a row: at the
// first, the memory that it takes is often new to the process, which costs more
// than the work that is done with it.
func largeCases() []measurement {
	list := units("large")
	for _, subject := range []string{pureGo, withCgo} {
		list = append(list, loads(subject, many, 3, "loadnew", "loadexisting", "unload", "reload")...)
		list = append(list, loads(subject, most, 3, "loadexisting")...)
		list = append(list, measurement{subject, fmt.Sprint(many), "mapped", many, 1, 1})
		list = append(list, measurement{subject, fmt.Sprint(many), "file", many, 1, 1})
	}
	list = append(list, loads(chosen(), many, 3, "loadnew", "unload", "reload")...)
	list = append(list, loads(chosen(), most, 3, "loadnew")...)
	return append(list, measurement{chosen(), fmt.Sprint(many), "mapped", many, 1, 1})
}
