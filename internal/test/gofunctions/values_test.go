//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// call is a call or a return, as the program and the command say it.
type call struct {
	Probe string
	Args  map[string]any
}

// decode reads a call. Numbers keep all of their digits.
func decode(t testing.TB, line string) (c call) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	require.NoError(t, d.Decode(&c), line)
	return c
}

// build builds a program from its source.
func build(t testing.TB, source string, env []string, flags ...string) (path string) {
	t.Helper()
	return tracetest.BuildFiles(t, map[string]string{"main.go": source, "go.mod": "module generated\n\ngo 1.22\n"}, env, flags...)
}

// trace traces specs while a program runs, and returns what the program says and what the command shows, by the
// names of the probes.
func trace(t *testing.T, path string, specs []string, flags ...string) (said, traced map[string]call) {
	t.Helper()
	s := launch(t, path)
	args := append([]string{"trace", "-o", "json"}, flags...)
	c := s.command(specs, append(args, specs...)...)
	s.Say("")
	s.Expect("done", testenv.Patience)
	said, traced = map[string]call{}, map[string]call{}
	for _, line := range stop(t, c) {
		objects.Check(t, line)
		one := decode(t, line)
		assert.NotContains(t, traced, one.Probe, "seen twice")
		traced[one.Probe] = one
	}
	for _, line := range s.Lines() {
		if line != "done" {
			one := decode(t, line)
			said[one.Probe] = one
		}
	}
	return said, traced
}

// requireSame compares all calls and their arguments. What the command need not read, such as floats, which
// it shows if they are on the stack, is hidden.
func requireSame(t testing.TB, said, traced map[string]call) {
	t.Helper()
	wrong := 0
	for name, want := range said {
		got, ok := traced[name]
		if !ok {
			wrong++
			assert.Fail(t, "not seen", name)
		}
		for arg, value := range want.Args {
			if shown, ok := got.Args[arg]; !ok || value != "<hidden>" && shown != value {
				wrong++
				assert.Equal(t, value, shown, "%s: %s", name, arg)
			}
		}
		if ok && len(got.Args) != len(want.Args) {
			wrong++
			assert.Len(t, got.Args, len(want.Args), "%s: %v", name, want)
		}
		if wrong > 20 {
			require.FailNow(t, "and so on")
		}
	}
	require.Len(t, traced, len(said))
}

// TestValues: every argument and result of generated functions is what the program passes and gets.
func TestValues(t *testing.T) {
	testenv.NeedsRoot(t)
	for _, c := range []struct {
		name      string
		long      bool
		functions int
		env       []string
		flags     []string
		// prepare changes the program, and returns flags of the command.
		prepare func(t testing.TB, path string) []string
	}{
		{name: "plain", functions: 100},
		{name: "many", long: true, functions: 1000},
		{name: "unoptimized", long: true, functions: 100, flags: []string{"-gcflags=all=-N -l"}},
		{name: "PIE", long: true, functions: 100, flags: []string{"-buildmode=pie"}},
		{name: "Go 1.22", long: true, functions: 100, env: []string{"GOTOOLCHAIN=go1.22.12"}},
		{name: "Go 1.24", long: true, functions: 100, env: []string{"GOTOOLCHAIN=go1.24.0"}},
		{name: "Go 1.27", long: true, functions: 100, env: []string{"GOTOOLCHAIN=go1.27.0"}},
		{name: "debug file", functions: 100, prepare: linkDebugFile},
		{name: "named debug file", functions: 30, prepare: nameDebugFile},
		{name: "debug file, unoptimized PIE", long: true, functions: 100, flags: []string{"-buildmode=pie", "-gcflags=all=-N -l"}, prepare: linkDebugFile},
		{name: "debug file, Go 1.22", long: true, functions: 100, env: []string{"GOTOOLCHAIN=go1.22.12"}, prepare: linkDebugFile},
		{name: "debug file, Go 1.27", long: true, functions: 100, env: []string{"GOTOOLCHAIN=go1.27.0"}, prepare: linkDebugFile},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long {
				testenv.Long(t, "it builds a program and traces all of its functions")
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			path := build(t, program(seed, c.functions), c.env, c.flags...)
			var specs []string
			for i := range groups {
				spec := fmt.Sprintf("go:main.*Q%c*", 'a'+i)
				specs = append(specs, spec, spec+":return")
			}
			var flags []string
			if c.prepare != nil {
				flags = c.prepare(t, path)
			}
			said, traced := trace(t, path, specs, flags...)
			requireSame(t, said, traced)
		})
	}
}
