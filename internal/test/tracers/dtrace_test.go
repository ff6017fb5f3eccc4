//go:build linux

package tracers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

// dtraceArguments is how many arguments a clause of D has names for.
const dtraceArguments = 10

const dtraceRemark = "DTrace appends the process ID to the provider's name, which must therefore not end in a digit, and writes `__` as `-`. " +
	"It looks for probes only once, when it starts. On a kernel without KALLSYMS_ALL it needs `-xsyslibdir=` with a copy of " +
	"its library that lacks `io.d`."

// dtraceRows are of DTrace for Linux, which Debian has in its newest version only.
func dtraceRows() []row {
	h := host{newest: true}
	version := h.versionOf("dtrace", "-V")
	remark := func(kind) string { return dtraceRemark }
	return []row{
		{tool: "DTrace", way: "`-n 'PROVIDERPID:::PROBE'`", version: version, remark: remark, works: func(t *testing.T, s *subject) {
			out := run(t, dtrace(t, "-q", "-n", dProgram(s))...)
			require.NoError(t, compare(events(out, `^event (.*)$`), s.wide, dtraceArguments, plain))
		}},
		{tool: "DTrace", way: "`-lv`", version: version, remark: remark, works: func(t *testing.T, s *subject) {
			out := run(t, dtrace(t, "-lv", "-n", dProbe(s))...)
			for i, typ := range s.wide.Types {
				require.Regexp(t, fmt.Sprintf(`(?m)^\s+args\[%d\]: %s$`, i, dType(typ)), out)
			}
		}},
	}
}

// dtrace is its command line, with a library that every kernel will do for. It does not run inside of the tree: it opens
// the dynamic loader of the subject by path, and in the tree that is another one.
func dtrace(t testing.TB, args ...string) []string {
	t.Helper()
	host{newest: true}.need(t, "dtrace")
	library := filepath.Join(t.TempDir(), "dtrace")
	require.NoError(t, os.CopyFS(library, os.DirFS(inTree(t, "usr/lib/*/dtrace"))))
	require.NoError(t, filepath.WalkDir(library, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "io.d" {
			err = os.Remove(path)
		}
		return err
	}))
	return append([]string{inTree(t, "lib*/ld-linux*.so.*"), "--library-path", filepath.Dir(inTree(t, "usr/lib/*/libdtrace.so.2")),
		inTree(t, "usr/sbin/dtrace"), "-xsyslibdir=" + library}, args...)
}

// inTree is the one path of the newest Debian that matches.
func inTree(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(*foreign, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, found, pattern)
	return found[0]
}

func dProbe(s *subject) string { return s.provider + s.pid() + ":::" + s.wide.Name }

// dProgram prints the arguments of events, and ends when there were enough.
func dProgram(s *subject) string {
	words, arguments := printing(s.wide, dtraceArguments, func(i int, letter rune) (string, string) {
		if letter == 's' {
			return "%s", fmt.Sprintf("copyinstr(arg%d)", i)
		}
		return "%" + string(letter), fmt.Sprintf("arg%d", i)
	})
	return fmt.Sprintf(`%s { printf("event %s\n", %s); n++; } %[1]s /n > %[4]d/ { exit(0); }`, dProbe(s), words, arguments, wanted)
}

// dType is what DTrace calls a type, as an expression: it knows no strings.
func dType(typ stapsdt.ArgType) string {
	name := fmt.Sprintf("int%d_t", 8*typ.Size())
	if typ == stapsdt.String || !typ.Signed() {
		name = "u" + name
	}
	return name
}
