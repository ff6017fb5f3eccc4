//go:build linux

package tracers

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"

	"github.com/stretchr/testify/require"
)

func gdbRows(h host) []row {
	start := func(s *subject) []string {
		// Its libraries are where it runs, which may be outside of the tree that gdb runs in.
		return []string{"gdb", "-q", "-batch", "-nx", "-iex", "set sysroot /proc/" + s.pid() + "/root", "-p", s.pid(),
			"-ex", "info probes stap ^" + s.provider + "$"}
	}
	return []row{{
		tool: "gdb", way: "`info probes`, `break -probe-stap`, `$_probe_arg0`", version: h.versionOf("gdb", "--version"),
		works: func(t *testing.T, s *subject) {
			words := append(start(s), "-ex", "break -probe-stap "+s.provider+":"+fired.Pair.Name)
			for range wanted {
				words = append(words, "-ex", "continue",
					"-ex", `printf "event %lu %ld\n", (unsigned long)$_probe_arg0, (long)$_probe_arg1`)
			}
			out := h.run(t, words...)
			require.Regexp(t, regexp.MustCompile(fmt.Sprintf(`(?m)^stap +%s +%s +0x`, s.provider, fired.Pair.Name)), out)
			require.NoError(t, compare(events(out, `^event (.*)$`), fired.Pair, 2, plain))
		},
		cannot: onlyIn(func(k kind) bool { return !k.isC() },
			obstacle{"gdb looks into what the dynamic loader has loaded, which the images of the Go package are not.",
				h.refuses(`No probes matched`, start)}),
	}}
}
