//go:build linux

package table

import (
	"fmt"
	"strings"
)

// pageTable is a table of docs/cost.md, whose rows are what a reader needs to decide.
type pageTable struct {
	mark   string
	titles string // of the columns: what, the ratio and the figure
	rows   []pageRow
}

// pageRow is a figure and its ratio to another of the same rounds, which is empty for a size.
type pageRow struct {
	what, key, beside string
	format            func(float64) string
}

// pageTables are the tables, in the order of the page.
func pageTables() []pageTable {
	idle, traced, inside, outside := unit(clock, "idle"), unit(clock, "traced"), unit(clock, "inside"), unit(clock, "outside")
	called, loaded, large := unit(clock, "functions"), unit(getppid, "loads"), unit(getppid, "large")
	return []pageTable{
		{"idle", "| an event that is not watched | readings of the clock | time |", []pageRow{
			{"**Go**, `Probe2.Fire`, two integers", pureGo + " idle two", idle, nanoseconds},
			{"Go, `Probe2.Fire`, a string and an integer", pureGo + " idle text", idle, nanoseconds},
			{"Go, `Probe.Fire(...any)`, two integers", pureGo + " idle any", idle, nanoseconds},
			{"**C**, our `probeFire`, two integers", chosen() + " idle fire", idle, nanoseconds},
			{"C, `<sys/sdt.h>`, `DTRACE_PROBE2`", chosen() + " idle sdt", idle, nanoseconds},
			{"`log/slog`, `LogAttrs` with two integers, level off", pureGo + " idle attrs", idle, nanoseconds},
			{"`log/slog`, `Debug` with two integers, level off", pureGo + " idle debug", idle, nanoseconds},
			{"a reading of the clock, `time.Since`", idle, idle, nanoseconds},
		}},
		{"watched", "| an event of two integers that is watched | readings of the clock | time |", []pageRow{
			{"**recorded** in a file", pureGo + " inside filedtwo", inside, nanoseconds},
			{"recorded in a file, by a clock that is not the processor's counter", otherClock + " inside filedtwo", inside, nanoseconds},
			{"seen by another process **by the socket**", pureGo + " outside outsidetwo", outside, nanoseconds},
			{"recorded by LTTng-UST", lttngSubject + " outside two", outside, nanoseconds},
			{"handed to a function by `Observe`", pureGo + " inside observedtwo", inside, nanoseconds},
			{"counted **by the kernel**", pureGo + " traced two", traced, nanoseconds},
			{"a Go function without a probe, counted by `stapsdt count`", functionKey(pushCalls), called, nanoseconds},
			{"the same by a uprobe of bpftrace", functionKey(bpftraceCalls), called, nanoseconds},
		}},
		{"once", "| what a program pays once | system calls | |", []pageRow{
			{"load a provider with 1 probe, whose file exists", pureGo + " 1 loadexisting", loaded, microseconds},
			{"load a provider with 1 probe, new file", pureGo + " 1 loadnew", loaded, microseconds},
			{"load 1,000 probes", pureGo + " 1000 loadexisting", loaded, microseconds},
			{"load 20,000 probes", pureGo + " 20000 loadexisting", large, microseconds},
			{"start a recording of 16 MiB", pureGo + " 16 record", large, microseconds},
			{"in the binary, stripped", addedStripped, "", kilobytes},
			{"in the binary, with `probeenv.Load`", addedEnv, "", kilobytes},
			{"in memory, of the file of 20,000 probes", pureGo + " 20000 mapped", "", func(v float64) string { return kilobytes(v / 1000) }},
		}},
		{"command", "| what the command takes of a processor itself | readings of the clock | |", []pageRow{
			{"an event by the socket, `count`", "command count", commandClock, nanoseconds},
			{"an event by the socket, `hist --by`", "command histby", commandClock, nanoseconds},
			{"an event by the socket, `record`", "command record", commandClock, nanoseconds},
			{"a line of `trace`", "command trace", commandClock, nanoseconds},
			{"a line of `trace -o json`", "command tracejson", commandClock, nanoseconds},
			{"waiting, `trace -p`, kernel, beside 25 starts of processes a second", "command waiting kernel", "", percent},
			{"waiting, `trace -p`, socket, beside 25 starts of processes a second", "command waiting socket", "", percent},
			{"a series that `export` serves, of 10,000 counters", "command scrapecounter", commandClock, nanoseconds},
		}},
	}
}

// pageTable returns a table in Markdown.
func (r results) pageTable(table pageTable) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s\n|---|--:|--:|\n", table.titles)
	for _, row := range table.rows {
		if !r.steady(row.key, row.beside) {
			continue
		}
		ratio := ""
		switch {
		case strings.HasSuffix(row.beside, getppid):
			ratio = fmt.Sprintf("%.3g", r.calls(row.key, row.beside))
		case row.beside != "":
			ratio = fmt.Sprintf("%.2g", r.ratio(row.key, row.beside))
		}
		fmt.Fprintf(&s, "| %s | %s | %s |\n", row.what, ratio, row.format(r.median(row.key)))
	}
	return s.String()
}
