//go:build linux

// Command subject is the Go program that scripts/bench.sh measures. For each line
// "ROW N" it does the row's operation and answers with a number: the nanoseconds
// that N fires took, or those that a load of N probes took.
//
// Time is its thread's on a processor. What other jobs take of the machine is not
// in it, and what the kernel does for the thread is.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// rows are the operations by name. Each returns what it measured.
var rows = map[string]func(n int) int64{
	"enabled": timed(enabled), "zero": timed(fireZero), "two": timed(fireTwo), "text": timed(fireText), "six": timed(fireSix),
	"any": timed(fireAny), "func": timed(fireFunc), "struct": timed(fireStruct), "debug": timed(logDebug), "attrs": timed(logAttrs),
	"alone":    func(n int) int64 { return together(1, n, fireTwo) },
	"together": func(n int) int64 { return together(2, n, fireTwo) },

	"clock": timed(readClock), "getppid": timed(getppid),
	"clocktogether": func(n int) int64 { return together(2, n, readClock) },
	"observedtwo":   seen(observed.fireTwo), "observedtext": seen(observed.fireText),
	"recordedtwo": seen(recorded.fireTwo), "recordedtext": seen(recorded.fireText), "recordedtime": seen(recorded.fireTime),
	"recordedrequest":     seen(fireRequests),
	"recordedtwotogether": seenTogether(recorded.fireTwo), "recordedtexttogether": seenTogether(recorded.fireText),
	"filedtwo": seen(filed.fireTwo), "filedtext": seen(filed.fireText),
	"filedtwotogether": seenTogether(filed.fireTwo), "filedtexttogether": seenTogether(filed.fireText),
	"watchedtext": fireWatched,
	"outsidetwo":  seenOutside(1, outside.fireTwo), "outsidetext": seenOutside(1, outside.fireText),
	"outsidetwotogether": seenOutside(2, outside.fireTwo), "outsidetexttogether": seenOutside(2, outside.fireText),

	"loadnew": loadNew, "loadexisting": loadExisting, "unload": unload, "reload": reload,
	"mapped": mapped, "file": fileSize,

	"define": definition{}.measure, "definenamed": definition{named: true}.measure, "definelate": definition{late: true}.measure,
	"sites": definition{oneName: true}.measure, "sitesnamed": definition{oneName: true, named: true}.measure,
	"siteslate": definition{oneName: true, late: true}.measure,

	"record": record, "fallocate": fallocate,
}

// timed makes a row of what does something n times.
func timed(f func(n int)) func(n int) int64 {
	return func(n int) int64 {
		start := now()
		f(n)
		return now() - start
	}
}

// now is this thread's time on a processor, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		log.Fatal(err)
	}
	return t.Nano()
}

func main() {
	log.SetFlags(0)
	runtime.LockOSThread()
	check(bench.Load())
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var name string
		var n int
		if _, err := fmt.Sscan(in.Text(), &name, &n); err != nil {
			log.Fatal(err)
		}
		row := rows[name]
		if row == nil {
			log.Fatalf("no row %q", name)
		}
		fmt.Println("took", row(n))
	}
	stopWatcher()
	stopInside()
	check(bench.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
