//go:build linux

package tracers

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

func perfRows(h host) []row {
	add := func(s *subject) []string { return []string{"perf", "buildid-cache", "--add", s.path} }
	return []row{{
		tool: "perf", way: "`buildid-cache --add`, `list sdt`, `probe`, `record -a`, `script`", version: h.versionOf("perf", "--version"),
		works:  func(t *testing.T, s *subject) { perf(t, h, s) },
		remark: ofGo("`perf script` shows negative numbers of 8 and 16 bits as unsigned, and strings as their addresses."),
		cannot: onlyIn(inMemfd, obstacle{"perf copies the file into its cache under its real path, and a memfd has none.",
			h.refuses(`Couldn't add /proc/\d+/fd/\d+: No such file`, add)}),
	}}
}

func perf(t *testing.T, h host, s *subject) {
	event := "sdt_" + s.provider + ":" + s.wide.Name
	h.run(t, "perf", "buildid-cache", "--add", s.path)
	t.Cleanup(func() { h.run(t, "perf", "buildid-cache", "--remove", s.path) })
	for _, name := range s.probeNames() {
		require.Contains(t, h.run(t, "perf", "list", "sdt"), "sdt_"+s.provider+":"+name+" ")
	}
	h.run(t, "perf", "probe", event)
	t.Cleanup(func() { h.run(t, "perf", "probe", "-d", event) })
	require.NoError(t, compare(perfRecords(t, h, event), s.wide, len(s.wide.Types), perfShows))
}

// perfRecords records an event for a moment, and returns what perf prints of it.
func perfRecords(t *testing.T, h host, event string) [][]string {
	data := filepath.Join(t.TempDir(), "perf.data")
	// With -p it attaches to the threads that it finds, and misses events now and then while the program starts others.
	h.run(t, "perf", "record", "-a", "-o", data, "-e", event, "--", "sleep", "0.3")
	return named(h.run(t, "perf", "script", "-i", data), event)
}

// perfShows is how perf prints a value: of strings the address, as an image cannot say that an argument is one, and of
// small signed integers the bits, though it asks the kernel for a signed field.
func perfShows(v any) string {
	if _, ok := v.(string); ok {
		return ""
	}
	return smallUnsigned(v)
}

// smallUnsigned is how perf and trace-cmd print a number: of 8 and 16 bits always as unsigned.
func smallUnsigned(v any) string {
	switch v := v.(type) {
	case int8:
		return plain(uint8(v))
	case int16:
		return plain(uint16(v))
	}
	return plain(v)
}

// named are the events in what perf, trace-cmd and the kernel itself print: NAME: (ADDRESS) arg1=1 arg2="text".
func named(out, event string) [][]string {
	list := events(out, event+`: +\([0-9a-fx]+\) (.*)$`)
	for _, words := range list {
		for i, word := range words {
			_, value, _ := strings.Cut(word, "=")
			words[i] = strings.Trim(value, `"`)
		}
	}
	return list
}

// gdb is the command line that attaches to a subject and runs commands.
func gdb(s *subject, commands ...string) []string {
	// Its libraries are where it runs, which may be outside of the tree that gdb runs in.
	words := []string{"gdb", "-q", "-batch", "-nx", "-iex", "set sysroot /proc/" + s.pid() + "/root", "-p", s.pid()}
	for _, command := range commands {
		words = append(words, "-ex", command)
	}
	return words
}

func gdbRows(h host) []row {
	start := func(s *subject) []string { return gdb(s, "info probes stap ^"+s.provider+"$") }
	return []row{{
		tool: "gdb", way: "`info probes`, `break -probe-stap`, `$_probe_arg0`", version: h.versionOf("gdb", "--version"),
		works: func(t *testing.T, s *subject) {
			commands := []string{"info probes stap ^" + s.provider + "$", "break -probe-stap " + s.provider + ":" + fired.Pair.Name}
			for range wanted {
				commands = append(commands, "continue", `printf "event %lu %ld\n", (unsigned long)$_probe_arg0, (long)$_probe_arg1`)
			}
			out := h.run(t, gdb(s, commands...)...)
			require.Regexp(t, regexp.MustCompile(fmt.Sprintf(`(?m)^stap +%s +%s +0x`, s.provider, fired.Pair.Name)), out)
			require.NoError(t, compare(events(out, `^event (.*)$`), fired.Pair, 2, plain))
		},
		cannot: onlyIn(func(k kind) bool { return !k.isC() },
			obstacle{"gdb looks into what the dynamic loader has loaded, which the images of the Go package are not.",
				h.refuses(`No probes matched`, start)}),
	}}
}

func elfRows(h host) []row {
	binutils, elfutils := h.versionOf("readelf", "--version"), h.versionOf("eu-readelf", "--version")
	return []row{
		{tool: "readelf", way: "`-n`", version: binutils, works: func(t *testing.T, s *subject) {
			notes(t, s, h.run(t, "readelf", "-n", s.path),
				`Provider: (\S+)\s+Name: (\S+)\s+Location: \S+, Base: \S+, Semaphore: 0x0+\s+Arguments: (.*)$`)
		}},
		{tool: "eu-readelf", way: "`-n`", version: elfutils, works: func(t *testing.T, s *subject) {
			notes(t, s, h.run(t, "eu-readelf", "-n", s.path),
				`PC: \S+, Base: \S+, Semaphore: 0\s+Provider: (\S+), Name: (\S+), Args: '(.*)'$`)
		}},
		{tool: "eu-elflint", way: "no fault, but that it does not know SDT notes, whoever makes them", version: elfutils,
			works: func(t *testing.T, s *subject) { lint(t, h.run(t, "eu-elflint", s.path)) }},
	}
}

// notes compares what is listed with what was defined: names, sizes and signs, and then with where another reader finds
// the arguments.
func notes(t *testing.T, s *subject, out, expression string) {
	want, err := sdt.ReadFile(s.path)
	require.NoError(t, err)
	list := regexp.MustCompile("(?m)"+expression).FindAllStringSubmatch(out, -1)
	require.Len(t, list, len(s.probeNames()))
	require.Len(t, want, len(list))
	for i, m := range list {
		require.Equal(t, []string{s.provider, s.probeNames()[i]}, m[1:3])
		var operands []string
		for _, a := range want[i].Args {
			operands = append(operands, a.String())
		}
		require.Equal(t, strings.Join(operands, " "), m[3])
	}
	last := strings.Fields(list[len(list)-1][3])
	require.Len(t, last, len(s.wide.Types))
	for i, typ := range s.wide.Types {
		size := typ.Size()
		if typ.Signed() {
			size = -size
		}
		require.Equal(t, fmt.Sprint(size), strings.Split(last[i], "@")[0])
	}
}

// lint lets pass what eu-elflint says of every SDT note, also of those that a compiler made: "unknown" until elfutils
// 0.189 and later "malformed", as it knows only notes that have a size of zero.
func lint(t *testing.T, out string) {
	known := regexp.MustCompile(`^section \[ *\d+\] '\.note\.stapsdt': (unknown|malformed) object file note type 3 with owner name 'stapsdt' at offset \d+$`)
	for said := range strings.Lines(out) {
		said = strings.TrimSpace(said)
		if said != "" && said != "No errors" {
			require.Regexp(t, known, said)
		}
	}
}
