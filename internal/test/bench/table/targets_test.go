//go:build linux

package table

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// target is a promise: a figure, and the most that it may be.
type target struct {
	what     string
	max, got float64
}

//go:embed limits.txt
var limits string

// targets are the promises of limits.txt, and those that are no ratio of two figures, of what was measured.
func (r results) targets() (list []target) {
	all, counts := everything(), countsReliably()
	for line := range strings.Lines(limits) {
		measured := all || *onlyFunctions && strings.Contains(line, " functions ") || *onlyCommand && (strings.Contains(line, "| command ") || strings.Contains(line, "| answers ")) ||
			*onlyRecorded && (strings.Contains(line, " inside ") || strings.Contains(line, " outside "))
		byCounter, _, _ := strings.Cut(line, "|")
		measured = measured && (counts || !strings.Contains(byCounter, "*"))
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && measured {
			for _, fields := range expanded(line) {
				list = append(list, r.target(fields))
			}
		}
	}
	if all {
		for _, build := range []string{pureGo, withCgo} {
			// Both beside the clock of their rounds, which are far apart.
			before := r.ratio(build+" idle two", unit(clock, "idle"))
			list = append(list, target{build + " outside two, beside before the program listens", 1.1, r.ratio(build+" outside two", unit(clock, "outside")) / before})
		}
	}
	if *onlyCommand || *onlyRecorded {
		return list
	}
	return append(list, target{"a server whose calls of three functions are counted is slower by %", 10, r.slower(serverCalls)},
		target{"% of processor time of the probes with --budget 1%", 1.2, r.median(budgetShare)},
		target{"the same as the command says", 1.2, r.median(budgetOwn)})
}

var braces = regexp.MustCompile(`\{([^}]*)\}`)

// expanded returns the fields of a line, once for each build and each of the names in its braces.
func expanded(line string) (all [][]string) {
	line = strings.ReplaceAll(line, "C ", chosen()+" ")
	builds := []string{pureGo}
	if strings.Contains(line, "BUILD") {
		builds = append(builds, withCgo)
	}
	names := []string{""}
	if m := braces.FindStringSubmatch(line); m != nil {
		names = strings.Split(m[1], ",")
	}
	for _, build := range builds {
		for _, name := range names {
			one := strings.NewReplacer("BUILD", build, "SAME", name).Replace(braces.ReplaceAllLiteralString(line, name))
			fields := strings.Split(one+"|||", "|")
			for i := range fields {
				fields[i] = strings.TrimSpace(fields[i])
			}
			all = append(all, fields)
		}
	}
	return all
}

// target returns what the fields of a line say.
func (r results) target(fields []string) target {
	most, err := strconv.ParseFloat(strings.TrimSuffix(fields[0], "*"), 64)
	if err != nil {
		panic(err)
	}
	figure, beside := fields[1], fields[2]
	if beside == "" {
		return target{figure, most, r.median(figure)}
	}
	factor, err := strconv.ParseFloat(cmp.Or(fields[3], "1"), 64)
	if err != nil {
		panic(err)
	}
	return target{figure + ", beside " + beside, most, factor * r.ratio(figure, beside)}
}

// The units that figures are compared with.
const (
	clock         = "clock"         // a reading of the clock
	clockTogether = "clocktogether" // the same by two threads at once
	getppid       = "getppid"       // a system call
)

// unit returns the key of a unit that was measured in the same rounds as a phase.
func unit(name, phase string) string { return pureGo + " " + phase + " " + name }

// judge writes each target with ok or FAILED, and reports whether all were met.
func judge(w io.Writer, list []target) (met bool) {
	met = true
	fmt.Fprintln(w)
	for _, t := range list {
		verdict := "ok    "
		if !(t.got <= t.max) { // what is no number is not met
			verdict, met = "FAILED", false
		}
		fmt.Fprintf(w, "%s  %-68s %7.4g, at most %g\n", verdict, t.what, t.got, t.max)
	}
	return met
}
