//go:build linux && (amd64 || arm64)

// Command soak fires probes under a tracer, in every way that could lose a fire, and compares what the program has fired
// with what the tracer has seen: how often, and the sums of the arguments. They must be equal.
//
//	soak [-seconds N] [-within DURATION] [BUILD=PROGRAM ...]
//
// A build is this command itself, built in one way or another, and is named in the table. Each phase runs in a process of
// its own. Without arguments it is this program. It needs root and Linux 6.6.
//
// # Why the counts are exact
//
// Goroutines fire without pause. The first argument is the number of a window, or 0 for none. A window opens when the
// tracer is attached and the provider loaded, and it is closed, which every goroutine has confirmed, before anybody
// detaches or unloads. The tracer counts by that argument. So each fire of a window must be in its count, whatever
// happened to those before, between and after, which a tracer may have seen or not.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// standard is how long the work takes that the phases are written for.
const standard = 120 * time.Second

func main() {
	seconds := flag.Float64("seconds", standard.Seconds(), "how much `time` the phases share; they have more, or less, to do in proportion")
	within := flag.Duration("within", 0, "the `time` they may take for that on a busy machine, if it is not the same")
	phase := flag.String("phase", "", "run this `phase` only, in this process, and print its result as JSON")
	budget := flag.Duration("budget", time.Minute, "the time of that phase")
	flag.Parse()
	if *seconds <= 0 {
		fatal(fmt.Errorf("%v seconds is no time", *seconds))
	}
	total := time.Duration(*seconds * float64(time.Second))
	scale := float64(total) / float64(standard)
	if *phase != "" {
		runChild(*phase, scale, *budget)
		return
	}
	builds, err := parseBuilds(flag.Args())
	if err != nil {
		fatal(err)
	}
	rows := runAll(builds, scale, max(total, *within))
	if failed := printTable(rows); failed > 0 {
		os.Exit(1)
	}
}

// build is a program to run phases in.
type build struct{ name, program string }

func parseBuilds(args []string) ([]build, error) {
	if len(args) == 0 {
		self, err := os.Executable()
		return []build{{"this", self}}, err
	}
	var builds []build
	for _, a := range args {
		name, program, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not BUILD=PROGRAM", a)
		}
		builds = append(builds, build{name, program})
	}
	return builds, nil
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "soak:", err)
	os.Exit(2)
}
