//go:build linux

package main

import (
	"errors"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
)

// TestLatencyDone: an operation may end with __done.
func TestLatencyDone(t *testing.T) {
	l := &latency{}
	specs, err := l.pair([]string{"p:query"})
	if err != nil {
		t.Fatal(err)
	}
	l.where.all = true
	if err := l.check(specs); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"query__end": true, "query__done": true, "query__start": false, "query__den": false} {
		if got := l.selector.Specs[1].Match("p", name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for _, name := range []string{"query__start", "query__done"} {
		kind, err := l.kind(&program.Probe{Provider: "p", Name: name}, name == "query__start")
		if err != nil || kind != 0 || len(l.kinds) != 1 {
			t.Fatalf("%s is of kind %d of %d, %v", name, kind, len(l.kinds), err)
		}
	}
	if got := l.kinds[0].String(); got != "p:query__start → p:query__done" {
		t.Error(got)
	}
	l = &latency{}
	if _, err := l.pair([]string{"p:query__start", "p:query__done"}); err != nil || l.key != "arg0" {
		t.Errorf("%q, %v", l.key, err)
	}
}

func TestDurationZero(t *testing.T) {
	tracing := tracing{where: where{all: true}, timed: func() bool { return true }}
	if err := tracing.check([]string{"p:query"}); !errors.Is(err, errUsage) {
		t.Error(err)
	}
}
