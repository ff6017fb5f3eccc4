//go:build linux

package main

import (
	"fmt"
	"path/filepath"
)

// functionCase is a way in which the calls of a function are traced, by a process and a file of its own: uprobes belong to
// files.
type functionCase struct {
	name string // of the subject
	row  string
	n    int      // calls in a round
	args []string // of stapsdt, or nil
	seen []string // what it counts, each as often as there are calls
}

// The names of the subjects.
const (
	untracedCalls = "untraced"
	pushCalls     = "push"
	entryCalls    = "entry"
	returnCalls   = "return"
	latencyCalls  = "latency"
	bpftraceCalls = "bpftrace"
)

func functionCases() []functionCase {
	const fast, slow = 20_000, 2_000
	const framed, leaf = "go:main.framed", "go:main.leaf"
	return []functionCase{
		{untracedCalls, "framed", 100 * fast, nil, nil},
		{pushCalls, "framed", fast, []string{"count", framed}, []string{"main.framed"}},
		{bpftraceCalls, "framed", slow, nil, nil},
		{entryCalls, "leaf", slow, []string{"count", leaf}, []string{"main.leaf"}},
		{returnCalls, "framed", slow, []string{"count", framed, framed + ":return"}, []string{"main.framed", "main.framed:return"}},
		{latencyCalls, "framed", slow, []string{"latency", framed}, []string{framed + ":return"}},
	}
}

func (c *functionCase) key() string { return c.name + " functions " + c.row }

// functionKey returns the key of what a subject was asked for.
func functionKey(name string) string {
	for _, c := range functionCases() {
		if c.name == name {
			return c.key()
		}
	}
	panic("no case " + name)
}

// measureFunctions measures the calls of functions, in rounds. It fails when a tracer has not counted every call.
func (r results) measureFunctions(rounds int) error {
	subjects := subjects{}
	defer subjects.stop()
	watchers := map[string]*watcher{}
	var theirs *tracer
	defer func() {
		for _, w := range watchers {
			w.kill()
		}
		if theirs != nil {
			theirs.kill()
		}
	}()
	var list []measurement
	const first = 100 // the kernel prepares a site when it is hit for the first time
	for _, c := range functionCases() {
		path := filepath.Join(*work, "functions-"+c.name)
		err := copyFile(filepath.Join(*work, "functions"), path)
		if err == nil {
			err = subjects.startWith(c.name, path, []string{"calls"})
		}
		if err != nil {
			return err
		}
		pid := subjects[c.name].cmd.Process.Pid
		switch {
		case c.name == bpftraceCalls:
			theirs, err = attach(pid, fmt.Sprintf(`uprobe:%s:"main.framed" { @ = count(); }`, path))
		case c.args != nil:
			watchers[c.name], err = watch(pid, c.args...)
		}
		if err == nil {
			_, err = subjects[c.name].ask(c.row, first)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		list = append(list, fires(c.name, "functions", c.n, c.row)...)
	}
	if err := r.measure(subjects, list, rounds); err != nil {
		return err
	}
	for _, c := range functionCases() {
		called := first + rounds*c.n
		if c.name == bpftraceCalls {
			// At the entry, a call counts again when the scheduler has preempted it there.
			seen, err := theirs.stop()
			if err != nil {
				return err
			}
			if seen < called {
				return fmt.Errorf("called %d times, of which bpftrace has counted %d", called, seen)
			}
			continue
		}
		if c.args == nil {
			continue
		}
		seen, err := watchers[c.name].stop()
		if err != nil {
			return err
		}
		for _, name := range c.seen {
			if seen[name] != called {
				return fmt.Errorf("%s: called %d times, and counted were %v", c.name, called, seen)
			}
		}
	}
	return nil
}
