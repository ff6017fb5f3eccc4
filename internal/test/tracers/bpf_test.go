//go:build linux

package tracers

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"

	"github.com/stretchr/testify/require"
)

// libbpfRows are of a C program that finds libbpf where it runs.
func libbpfRows(h host) []row {
	version := h.versionOf(built("usdt"), "--version")
	object := built("usdt.bpf.o")
	if h.newest {
		object = built("usdt.bpf.newest.o")
	}
	attach := func(pid func(*subject) string) func(*testing.T, *subject) {
		return func(t *testing.T, s *subject) {
			count := len(s.wide.Types)
			out := h.run(t, built("usdt"), object, pid(s), s.path, s.provider, s.wide.Name, format(s.wide, count))
			require.NoError(t, compare(events(out, `^(\d+ .*)$`), s.wide, count, plain))
		}
	}
	return []row{
		{tool: "libbpf", way: "`SEC(\"usdt\")`, a process", version: version, works: attach((*subject).pid)},
		{tool: "libbpf", way: "`SEC(\"usdt\")`, every process", version: version, works: attach(every)},
	}
}

// every is what both take for every process.
func every(*subject) string { return "-1" }

func ciliumRows() []row {
	version := host{}.versionOf(built("ebpf"), "--version")
	attach := func(pid func(*subject) string) func(*testing.T, *subject) {
		return func(t *testing.T, s *subject) {
			out := run(t, built("ebpf"), pid(s), s.path, s.provider, fired.Pair.Name)
			require.NoError(t, compare(events(out, `^(\d+ .*)$`), fired.Pair, 2, plain))
		}
	}
	return []row{
		{tool: "cilium/ebpf", way: "`link.Executable.Uprobe`, a process", version: version, works: attach((*subject).pid)},
		{tool: "cilium/ebpf", way: "`link.Executable.Uprobe`, every process", version: version, works: attach(every)},
	}
}
