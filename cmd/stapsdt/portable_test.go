package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// portable are the packages that only ask, read events and show what they say. They know nothing of
// the kernel.
var portable = []string{"query", "spec", "event", "replay", "remote", "render", "console", "outfile", "text"}

// TestPortable: the portable packages compile for any system, and import the same of the command's packages
// on each of them, so none that attaches to probes or looks at other processes: those are for Linux.
func TestPortable(t *testing.T) {
	const module = "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/"
	var all []string
	for _, name := range portable {
		all = append(all, module+name)
	}
	imported := map[string][]string{}
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
			require.NotContains(t, path, "cilium/ebpf", system)
			if name, ours := strings.CutPrefix(path, module); ours {
				imported[system] = append(imported[system], name)
			}
		}
		require.ElementsMatch(t, imported["linux"], imported[system], system)
	}
	require.Subset(t, imported["linux"], portable)
}
