//go:build linux

package table

import (
	"fmt"
	"strings"
	"testing"
)

// measureRecorded measures the events that the program itself and other processes see. The first row changes the programs: see startInside.
func (r results) measureRecorded(t testing.TB, all subjects) {
	progress("observed")
	r.measure(t, all, insideCases(), rounds(15))
	progress("seen by another process")
	r.measureOutside(t, all, outsideCases(), rounds(15))
}

// clockLines are the rows of the table of clocks: the figures by the counter and by another clock, beside a reading of the clock in their phase. LTTng
// reads the clock whatever its source is.
var clockLines = []struct{ what, counter, other, phase string }{
	{"in memory, two integers", pureGo + " inside recordedtwo", otherClock + " inside recordedtwo", "inside"},
	{"in memory, a string of 16 bytes and an integer", pureGo + " inside recordedtext", otherClock + " inside recordedtext", "inside"},
	{"in a file, two integers", pureGo + " inside filedtwo", otherClock + " inside filedtwo", "inside"},
	{"in a file, a string of 16 bytes and an integer", pureGo + " inside filedtext", otherClock + " inside filedtext", "inside"},
	{"by the socket, two integers", pureGo + " outside outsidetwo", otherClock + " outside outsidetwo", "outside"},
	{"by the socket, a string of 16 bytes and an integer", pureGo + " outside outsidetext", otherClock + " outside outsidetext", "outside"},
	{"in C, in a file, two integers", cRecorded + " inside fire", otherClockC + " inside fire", "inside"},
	{"in C, in a file, a string of 16 bytes and an integer", cRecorded + " inside text", otherClockC + " inside text", "inside"},
	{"by LTTng-UST, two integers", "", lttngSubject + " outside two", "outside"},
	{"by LTTng-UST, a string of 16 bytes and an integer", "", lttngSubject + " outside text", "outside"},
}

// clocks returns the table of clocks.
func (r results) clocks() string {
	var s strings.Builder
	fmt.Fprintf(&s, "A reading of the clock (`time.Since`) takes %s.\n\n", nanoseconds(r.median(unit(clock, "inside"))))
	s.WriteString("| a recorded event | by the counter | clock | by another clock | clock |\n|---|--:|--:|--:|--:|\n")
	for _, l := range clockLines {
		beside := unit(clock, l.phase)
		row(&s, l.what, r.cells(l.counter, nanoseconds, beside), r.cells(l.other, nanoseconds, beside))
	}
	return s.String()
}
