//go:build linux && cgo && !stapsdt_nocgo

package cstapsdt

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

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
