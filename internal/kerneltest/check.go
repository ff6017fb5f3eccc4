//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long a check waits for what should take moments, starting for
// bpftrace to start and attach, which takes seconds, and limit how long a check
// may take as a whole: guests are emulated, on machines that do other things too.
const (
	patience = time.Minute
	starting = 4 * time.Minute
	limit    = 5 * time.Minute
)

// T is what a check reports to. It is a testing.TB, so that package tracetest
// and testify serve here as they do in tests, where there is no "go test".
type T struct {
	testing.TB // nil: only the methods below are called

	name     string
	notes    []string // what an "ok" line tells
	why      []string // what a "FAILED" line tells
	skip     string
	cleanups []func()
}

// Notef adds to what the check's line tells when it passes.
func (t *T) Notef(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// The methods of testing.TB that are in use.

func (t *T) Name() string    { return t.name }
func (t *T) Helper()         {}
func (t *T) Failed() bool    { return len(t.why) > 0 }
func (t *T) Log(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

func (t *T) Errorf(format string, args ...any) { t.why = append(t.why, fmt.Sprintf(format, args...)) }

func (t *T) FailNow() {
	if !t.Failed() {
		t.Errorf("FailNow")
	}
	runtime.Goexit()
}

func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *T) Skipf(format string, args ...any) {
	t.skip = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (t *T) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *T) TempDir() string {
	dir, err := os.MkdirTemp("", "kerneltest-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// perform runs a check in a goroutine of its own, which the methods above can
// end, and returns when it and its cleanups are over.
func (t *T) perform(run func(*T)) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			for _, f := range slices.Backward(t.cleanups) {
				f()
			}
		}()
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		run(t)
	}()
	<-ended
}

// line returns the check's line.
func (t *T) line() string {
	word, list := "ok", t.notes
	switch {
	case t.Failed():
		word, list = "FAILED", t.why
	case t.skip != "":
		word, list = "skipped", []string{t.skip}
	}
	line := word + " " + t.name
	if len(list) > 0 {
		// testify explains a failure on many lines.
		line += ": " + strings.Join(strings.Fields(strings.Join(list, "; ")), " ")
	}
	return line
}

// runAll runs checks, prints their lines and the verdict, and reports whether
// all have passed.
func runAll(list []check) bool {
	passed, failed := 0, 0
	for _, c := range list {
		if !strings.HasPrefix(c.name, *only) {
			continue
		}
		// A check that hangs may hold what the others need: it is the last.
		watchdog := time.AfterFunc(limit, func() {
			pprof.Lookup("goroutine").WriteTo(os.Stdout, 2)
			fmt.Printf("FAILED %s: it still runs after %v\n%d passed, %d failed\n", c.name, limit, passed, failed+1)
			if *guest {
				powerOff()
			}
			os.Exit(1)
		})
		t := &T{name: c.name}
		t.perform(c.run)
		watchdog.Stop()
		fmt.Println(t.line())
		switch {
		case t.Failed():
			failed++
		case t.skip == "":
			passed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return failed == 0
}
