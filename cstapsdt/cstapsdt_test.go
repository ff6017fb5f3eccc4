//go:build linux && cgo && !stapsdt_nocgo

package cstapsdt

import (
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	_ "github.com/ianlancetaylor/cgosymbolizer"
	"github.com/stretchr/testify/require"
)

func needLibelf(t *testing.T) {
	t.Helper()
	if !HasLibelf() {
		testenv.Needs(t, "libelf", errors.New("no headers, or no library"))
	}
}

var types = []int8{1, -1, 2, -2, 4, -4, 8, -8}

// random makes a spec from random numbers. Its names have any byte that a C
// string can hold.
func random(r *rand.Rand) image.Spec {
	name := func() string {
		b := make([]byte, 1+r.IntN(1+r.IntN(254)))
		for i := range b {
			b[i] = byte(1 + r.IntN(255))
		}
		return string(b)
	}
	d := image.Spec{Provider: name()}
	byName := map[string][]int8{}
	for range r.IntN(1 + r.IntN(40)) {
		n := name()
		args, again := byName[n]
		if !again {
			args = make([]int8, r.IntN(image.MaxArgs+1))
			for i := range args {
				args[i] = types[r.IntN(len(types))]
			}
			byName[n] = args
		}
		d.Probes = append(d.Probes, image.Probe{Name: n, Args: args})
	}
	return d
}

func TestErrorsCross(t *testing.T) {
	p, err := NewProvider("errors")
	require.NoError(t, err)
	defer p.Close()
	_, err = NewProvider("")
	require.Error(t, err)
	for _, args := range [][]int8{{0}, {3}, {16}, make([]int8, 13)} {
		err := p.AddProbe("bad", args)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.NotEqual(t, -1, e.Code)
		require.NotEmpty(t, e.Text)
	}
	require.Error(t, p.AddProbe("", nil))
	_, _, err = p.Image("vax", "nop1", nil)
	require.Error(t, err)
	_, _, err = p.Image("arm64", "nop1", nil)
	require.Error(t, err)
}

func TestSameNop(t *testing.T) {
	require.Equal(t, site.Chosen().Name, chosenNop(), "C and Go must choose the same nop")
}

// TestCrashNamesItself: if C code faults, the stack trace names its frames.
func TestCrashNamesItself(t *testing.T) {
	testenv.NotSanitized(t, "its program is not")
	testenv.NotEmulated(t, "what it builds is a program of another machine")
	program := filepath.Join(t.TempDir(), "crash")
	out, err := exec.Command("go", "build", "-o", program, "./testdata/crash").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	trace := string(out)
	require.Contains(t, trace, "SIGSEGV")
	require.Contains(t, trace, "providerAddProbeV\n", "the C function")
	require.Contains(t, trace, "provider.c:", "its file and line")
	require.Contains(t, trace, "cstapsdt.(*Provider).AddProbe", "the Go function that called it")
}
