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
var portable = []string{"query", "spec", "event", "replay", "remote", "render", "console", "outfile", "text"}

// kernel are packages for Linux, with all that attaches to probes, or looks at other processes.
var kernel = []string{
	"bpf", "cgroup", "debugger", "deputy", "engine", "layout", "lease", "live", "meter", "operations", "pods", "price",
	"probes", "proc", "rights", "ring", "run", "socket", "stall", "symbol", "target",
}

// TestPortable: the portable packages import none of those for the kernel, and compile for any system.
func TestPortable(t *testing.T) {
	const module = "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/"
	var all []string
	for _, name := range portable {
		all = append(all, module+name)
	}
	for _, system := range []string{"linux", "darwin", "windows"} {
		run := func(args ...string) string {
			c := exec.Command("go", append(args, all...)...)
			c.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s: %s", system, out)
			return string(out)
		}
		run("build")
		for _, path := range strings.Fields(run("list", "-deps")) {
			name, ours := strings.CutPrefix(path, module)
			require.False(t, ours && slices.Contains(kernel, name), "%s: %s is not portable", system, name)
			require.NotContains(t, path, "cilium/ebpf", system)
		}
	}
}
