//go:build linux

package tracers

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func perfRows(h host) []row {
	add := func(s *subject) []string { return []string{"perf", "buildid-cache", "--add", s.path} }
	return []row{{
		tool: "perf", way: "`buildid-cache --add`, `list sdt`, `probe`, `record -a`, `script`", version: h.versionOf("perf", "--version"),
		works: func(t *testing.T, s *subject) { perf(t, h, s) },
		remark: func(k kind) string {
			if k.isC() {
				return "" // it fires none such
			}
			return "`perf script` shows negative numbers of 8 and 16 bits as unsigned, and strings as their addresses."
		},
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
	data := filepath.Join(t.TempDir(), "perf.data")
	// With -p it attaches to the threads that it finds, and misses events now and then while the program starts others.
	h.run(t, "perf", "record", "-a", "-o", data, "-e", event, "--", "sleep", "0.3")
	out := h.run(t, "perf", "script", "-i", data)
	require.NoError(t, compare(named(out, event), s.wide, len(s.wide.Types), perfShows))
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
