package testenv

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// outcome records how a helper ends a test.
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

// TestNeeds: a test that lacks a tool is skipped, and fails with CI=true. The message names the package that has it.
func TestNeeds(t *testing.T) {
	run := func(tool string) (o outcome) {
		var ended sync.WaitGroup
		ended.Go(func() { NeedsTool(&o, tool, "some-package") })
		ended.Wait()
		return o
	}
	t.Setenv("CI", "")
	require.True(t, run("no-such-tool").skipped)
	t.Setenv("CI", "true")
	missing := run("no-such-tool")
	require.True(t, missing.failed)
	require.Contains(t, missing.text, "some-package")
	require.Equal(t, outcome{}, run("go"))
}
