package testenv

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// outcome is what a helper does to a test.
type outcome struct {
	testing.TB
	failed, skipped bool
	text            string
}

func (o *outcome) Helper() {}

func (o *outcome) Fatalf(format string, args ...any) {
	o.failed, o.text = true, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (o *outcome) Skipf(format string, args ...any) {
	o.skipped, o.text = true, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (o *outcome) Skip(args ...any) { o.Skipf("%s", fmt.Sprint(args...)) }

// of runs a helper as a test of its own would.
func of(helper func(t testing.TB)) *outcome {
	o := &outcome{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		helper(o)
	}()
	<-done
	return o
}

func TestNeeds(t *testing.T) {
	missing := func(t testing.TB) { Needs(t, "x", errors.New("it is missing")) }
	tool := func(t testing.TB) { NeedsTool(t, "no-such-tool", "some-package") }
	t.Setenv("CI", "")
	require.True(t, of(missing).skipped)
	require.True(t, of(tool).skipped)
	t.Setenv("CI", "true")
	require.True(t, of(missing).failed)
	require.True(t, of(tool).failed)
	require.Contains(t, of(tool).text, "some-package")
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		o := of(func(t testing.TB) { Needs(t, "x", nil); NeedsTool(t, "go", "golang") })
		require.False(t, o.failed || o.skipped)
	}
}

// TestReasons: what no machine can do is skipped, in CI too, and the reason is printed.
func TestReasons(t *testing.T) {
	t.Setenv("CI", "true")
	t.Setenv("STAPSDT_TEST_EMULATED", "")
	require.False(t, of(func(t testing.TB) { NotEmulated(t, "why") }).skipped)
	t.Setenv("STAPSDT_TEST_EMULATED", "qemu")
	o := of(func(t testing.TB) { NotEmulated(t, "why") })
	require.True(t, o.skipped)
	require.Equal(t, "in qemu: why", o.text)
	require.Equal(t, testing.Short(), of(func(t testing.TB) { Long(t, "why") }).skipped)
	require.Equal(t, built("-race", "true"), of(func(t testing.TB) { NotRaced(t, "why") }).skipped)
}
