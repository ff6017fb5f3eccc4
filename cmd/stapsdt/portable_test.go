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
var portable = []string{"query", "spec", "event", "events", "replay", "remote", "render", "console", "outfile", "text"}

// portableVerbs are the packages of commands that read events of any source. On Linux, they may import what opens
// processes; elsewhere they import nothing but portable packages.
var portableVerbs = []string{"source", "list", "count", "latency", "trace", "tree", "timeline", "top"}

const internal = "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/"

// compile compiles packages for a system, and returns which of the command's packages they import.
func compile(t *testing.T, system string, names []string) (imported []string) {
	run := func(args ...string) string {
		for _, name := range names {
			args = append(args, internal+name)
		}
		c := exec.Command("go", args...)
		c.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", system, out)
		return string(out)
	}
	run("build")
	for _, path := range strings.Fields(run("list", "-deps")) {
		if name, ours := strings.CutPrefix(path, internal); ours {
			imported = append(imported, name)
		}
	}
	return imported
}

// TestPortable: the portable packages compile for any system, and import the same of the command's packages
// on each of them, so none that attaches to probes or looks at other processes: those are for Linux.
func TestPortable(t *testing.T) {
	linux := compile(t, "linux", portable)
	require.Subset(t, linux, portable)
	all := slices.Concat(portable, portableVerbs)
	for _, system := range []string{"darwin", "windows"} {
		require.ElementsMatch(t, linux, compile(t, system, portable), system)
		require.ElementsMatch(t, slices.Concat(linux, portableVerbs), compile(t, system, all), system)
	}
}
