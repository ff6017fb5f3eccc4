package main

import (
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

const fib = "(def fib (n) (if (- n 2) (+ (fib (- n 1)) (fib (- n 2))) n))"

func newThread(t *testing.T) (*thread, *probetest.Recorder) {
	p := stapsdt.NewProvider("lisptest")
	lisp := &thread{probes: newProbes(p), file: "test", id: 7, functions: map[string]function{}}
	return lisp, probetest.Record(t, p)
}

func TestCalls(t *testing.T) {
	lisp, rec := newThread(t)
	require.Equal(t, 0, lisp.try(fib))
	require.Equal(t, 1, lisp.try("(fib 2)"))
	rec.Want(func() {
		in := func(name string, line int32) { lisp.entry.Fire("test", name, line, 7) }
		out := func(name string, line int32) { lisp.ret.Fire("test", name, line, 7) }
		in("main", 2)
		in("fib", 1)
		in("fib", 1)
		out("fib", 1)
		in("fib", 1)
		out("fib", 1)
		out("fib", 1)
		out("main", 2)
	})
	require.Equal(t, 55, lisp.try("(fib 10)"))
}

// TestPanic: a function that fails returns, too.
func TestPanic(t *testing.T) {
	lisp, rec := newThread(t)
	lisp.try("(def bad () (none 1))")
	require.Equal(t, "error: no function none", lisp.try("(+ (bad) 1)"))
	depth := 0
	for _, e := range rec.Events() {
		if e.Probe().Name() == "function__entry" {
			depth++
		} else {
			depth--
		}
	}
	require.Len(t, rec.Events(), 4)
	require.Zero(t, depth)
	for _, wrong := range []string{"", "(", "()", "(def)", "((1))", "(if)", "(def f (n) n)"} {
		lisp.try(wrong)
	}
	require.Contains(t, lisp.try("(f 1 2)"), "error: ")
}
