package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// portable are the packages that only ask, read events and show what they say. They know nothing of
// the kernel.
var portable = []string{
	"query", "query/spec", "query/value", "stream/evaluate", "stream/events", "stream/pairing",
	"stream/replay", "stream/remote", "show/render", "show/schema", "show/console", "show/outfile", "show/text",
}

// portableVerbs are the packages of commands that read events of any source. On Linux, they may import what opens
// processes; elsewhere they import nothing but portable packages.
var portableVerbs = []string{
	"kernel/source", "verb/list", "verb/count", "verb/functions", "verb/latency", "verb/trace", "verb/tree",
	"verb/timeline", "verb/top", "verb/postmortem",
}

const (
	command  = "github.com/go-stapsdt/stapsdt/cmd/stapsdt"
	internal = command + "/internal/"
)

// imports returns which of the command's packages some packages are and import on a system. None may
// import BPF.
func imports(t *testing.T, system string, paths ...string) (all []string) {
	c := exec.Command("go", append([]string{"list", "-deps"}, paths...)...)
	c.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s: %s", system, out)
	require.NotContains(t, string(out), "cilium/ebpf", system)
	for _, path := range strings.Fields(string(out)) {
		if name, ours := strings.CutPrefix(path, internal); ours {
			all = append(all, name)
		}
	}
	return all
}

// TestPortable: the portable packages import the same of the command's packages on each system, so
// none that attaches to probes or looks at other processes: those are for Linux. The command itself
// has no others there, but for the plugin of kubectl, the language D, and the types that describe
// a recording and the end of a process. That all of this compiles
// is a test of internal/test/elsewhere.
func TestPortable(t *testing.T) {
	var paths []string
	for _, name := range portable {
		paths = append(paths, internal+name)
	}
	linux := imports(t, "linux", paths...)
	require.Subset(t, linux, portable)
	all := slices.Concat(linux, portableVerbs, []string{"kube", "kube/inpod", "tools/dlang", "find/recordings", "find/ending"})
	for _, system := range []string{"darwin", "windows"} {
		require.ElementsMatch(t, linux, imports(t, system, paths...), system)
		elsewhere := imports(t, system, command)
		require.Subset(t, elsewhere, portableVerbs, system)
		require.Subset(t, all, elsewhere, system)
	}
}
