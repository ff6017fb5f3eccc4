//go:build linux

package tracers

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"

	"github.com/stretchr/testify/require"
)

// otherRows are of tracers that can do little here, or nothing.
func otherRows() []row {
	here, newest := host{}, host{newest: true}
	rows := []row{
		{tool: "uftrace", way: "`record -E`", version: here.versionOf("uftrace", "--version"), cannot: uftraceCannot},
		lttngRow(),
	}
	for _, h := range []host{here, newest} {
		version := h.versionOf("stap", "--version")
		list := row{tool: "SystemTap", way: "`-l`", version: version, works: func(t *testing.T, s *subject) { stapList(t, h, s) }}
		if h.newest {
			list.way += ", with the headers of another kernel"
		} else if !headers() {
			list.cannot = always(stapObstacle(h, "-l"))
		}
		rows = append(rows, list)
	}
	run := row{tool: "SystemTap", way: "`-e`", version: here.versionOf("stap", "--version"), works: stapRun}
	if !headers() {
		run.cannot = always(stapObstacle(here, "-e"))
	}
	bpf := row{tool: "SystemTap", way: "`--runtime=bpf -e`", version: newest.versionOf("stap", "--version"),
		cannot: always(obstacle{"SystemTap's BPF runtime does not know the arguments of SDT probes.",
			newest.refuses(`unhandled statement or expression type: identifier '\$arg1'`, func(s *subject) []string {
				return []string{"stap", "--runtime=bpf", "-e", stapProgram(s)}
			})})}
	return append(rows, run, bpf)
}

const loadedLater = "uftrace starts the program, and looks for notes in what is loaded by then, not in what is loaded later."

// uftraceCannot has proofs with subjects of their own: uftrace starts programs, and attaches to none.
func uftraceCannot(k kind) *obstacle {
	switch k.program {
	case "go-pure":
		return &obstacle{"uftrace works from a library inside of the program, and pure Go is static.",
			func(t *testing.T, s *subject) {
				require.Contains(t, uftrace(t, t.TempDir(), built(k.program), s.provider), "Cannot trace static binary")
			}}
	case "go-cgo":
		return &obstacle{loadedLater, func(t *testing.T, s *subject) { uftraceSeesNone(t, built(k.program), s.provider) }}
	}
	return &obstacle{loadedLater, func(t *testing.T, s *subject) {
		uftraceSeesNone(t, built(k.program), "-t", "10", s.provider, fired.Pair.Name)
	}}
}

// uftrace runs a program for a second, with uftrace in it.
func uftrace(t *testing.T, dir string, words ...string) string {
	script := `sleep 1 | timeout -s INT 1 uftrace record --force -d "$@"`
	return host{}.run(t, append([]string{"sh", "-c", script, "sh", dir + "/data", "-E", "*:" + fired.Pair.Name}, words...)...)
}

func uftraceSeesNone(t *testing.T, words ...string) {
	host{}.need(t, "uftrace")
	dir := t.TempDir()
	require.Contains(t, uftrace(t, dir, words...), "loaded as ")
	seen := host{}.run(t, "uftrace", "dump", "-d", dir+"/data")
	require.Contains(t, seen, "[entry]", "it has traced nothing at all")
	require.NotContains(t, seen, ":"+fired.Pair.Name, "it works")
}

func stapMark(s *subject, mark string) string {
	return fmt.Sprintf(`process("%s").provider("%s").mark("%s")`, s.path, s.provider, mark)
}

func stapProgram(s *subject) string {
	return fmt.Sprintf(`global n; probe %s { printf("event %%d %%d\n", $arg1, $arg2); if (++n > %d) exit() }`,
		stapMark(s, fired.Pair.Name), wanted)
}

func stapObstacle(h host, option string) obstacle {
	return obstacle{"SystemTap builds a kernel module, for which it needs a kernel with modules and its headers.",
		h.refuses(`Checking "/lib/modules/.*/build/.config" failed`, func(s *subject) []string {
			if option == "-l" {
				return []string{"stap", "-l", stapMark(s, "*")}
			}
			return []string{"stap", option, stapProgram(s)}
		})}
}

func stapList(t *testing.T, h host, s *subject) {
	out := h.run(t, "stap", "-l", stapMark(s, "*"))
	for _, name := range s.probeNames() {
		require.Regexp(t, regexp.MustCompile("(?m)^"+regexp.QuoteMeta(stapMark(s, name))+"$"), out)
	}
}

func stapRun(t *testing.T, s *subject) {
	out := host{}.run(t, "stap", "-e", stapProgram(s))
	require.NoError(t, compare(events(out, `^event (.*)$`), fired.Pair, 2, plain))
}
