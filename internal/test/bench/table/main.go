//go:build linux

// Command table measures probes beside what else there is, and prints a table in
// Markdown. It is run by scripts/bench.sh, which builds the programs that it
// measures.
//
// Everything is measured in rounds: each round asks every program for every row
// once, one after the other, so that what the machine does meanwhile falls on all
// of them alike. A figure is the median of the rounds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
)

var (
	work   = flag.String("work", "", "the directory with the programs")
	images = flag.String("images", "", "a directory for the Go programs' images")
	quick  = flag.Bool("quick", false, "fewer rounds")
	check  = flag.Bool("check", false, "compare with the targets, and fail when one is missed")
	write  = flag.Bool("write", false, "put the tables into docs/cost.md, between their marks")
	only   = flag.Bool("functions", false, "measure only the functions of programs without probes")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	machine, processors, err := describeMachine()
	if err != nil {
		return err
	}
	r := results{}
	var targets []target
	if !*only {
		if err := r.measureAll(); err != nil {
			return err
		}
		if err := publish("cost", processors, markdown(r, machine)); err != nil {
			return err
		}
		targets = r.targets()
	}
	progress("functions")
	if err := r.measureFunctions(rounds(15)); err != nil {
		return err
	}
	if err := r.measureServer(rounds(9)); err != nil {
		return err
	}
	if err := r.measureBudget(); err != nil {
		return err
	}
	if err := publish("functions", processors, r.functions(machine)); err != nil {
		return err
	}
	if *check && !report(os.Stdout, append(targets, r.functionTargets()...)) {
		return errors.New("not every target was met")
	}
	return nil
}

// publish prints a table, and writes it into the page if that was asked for.
func publish(table, processors, text string) error {
	fmt.Print(text)
	if !*write {
		return nil
	}
	return replaceInFile("docs/cost.md", table, processors, text)
}

// measureAll measures everything there is in the table of probes.
func (r results) measureAll() error {
	subjects, err := startSubjects()
	defer subjects.stop()
	if err != nil {
		return err
	}
	progress("idle")
	if err := r.measure(subjects, idleCases(), rounds(15)); err != nil {
		return err
	}
	progress("traced")
	if err := r.measureTraced(subjects, tracedCases(), rounds(15)); err != nil {
		return err
	}
	progress("load")
	if err := r.measure(subjects, loadCases(), rounds(11)); err != nil {
		return err
	}
	if err := r.measure(subjects, largeCases(), rounds(5)); err != nil {
		return err
	}
	// The last, because its first row changes the programs: see startInside.
	progress("observed")
	if err := r.measure(subjects, insideCases(), rounds(15)); err != nil {
		return err
	}
	progress("seen by another process")
	if err := r.measureOutside(subjects, outsideCases(), rounds(15)); err != nil {
		return err
	}
	progress("size")
	return r.measureHello()
}

// rounds is n, or what is left of it for -quick.
func rounds(n int) int {
	if *quick {
		return max(3, n/3)
	}
	return n
}

// progress tells on standard error what the program is at.
func progress(what string) { fmt.Fprintln(os.Stderr, "measuring:", what) }

// results are figures by "subject phase row", as "go idle two".
type results map[string][]float64

// median returns the figure for a key. It is a mistake of this program to ask
// for what was not measured.
func (r results) median(key string) float64 {
	list := slices.Sorted(slices.Values(r[key]))
	if len(list) == 0 {
		panic("nothing was measured for " + key)
	}
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// has reports whether something was measured for a key.
func (r results) has(key string) bool { return len(r[key]) > 0 }

// ratio returns the median, over the rounds, of one figure divided by another
// that was measured in the same round.
func (r results) ratio(key, to string) float64 {
	return r.pairs(key, to, func(a, b float64) float64 { return a / b })
}

// difference returns the median, over the rounds, of one figure less another.
func (r results) difference(key, less string) float64 {
	return r.pairs(key, less, func(a, b float64) float64 { return a - b })
}

func (r results) pairs(key, other string, compare func(a, b float64) float64) float64 {
	a, b := r[key], r[other]
	if len(a) != len(b) {
		panic(key + " and " + other + " were not measured in the same rounds")
	}
	compared := results{}
	for i := range a {
		compared[key] = append(compared[key], compare(a[i], b[i]))
	}
	return compared.median(key)
}
