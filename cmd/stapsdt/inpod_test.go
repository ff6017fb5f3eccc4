//go:build linux

package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPodVerbs: kubectl stapsdt, which other systems have without these verbs, knows their flags.
func TestPodVerbs(t *testing.T) {
	// Those select processes, files and kernels of the machine.
	local := []string{"pid", "all", "follow", debugFile, sources, "single", "wait", "help", inpod.Increments, inpod.Alternative, inpod.Container}
	// The plugin fetches recordings, too, and --wait is for the next life of a container.
	own := map[string][]string{"record": {"from", "kept"}}
	root := rootCommand(&console.Console{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	var lines [][]string
	for _, v := range kube.Verbs {
		lines = append(lines, []string{v.Name})
	}
	requireReaders(t, lines)
	for _, v := range kube.Verbs {
		c, _, err := root.Find([]string{v.Name})
		require.NoError(t, err)
		require.Equal(t, v.Name, c.Name())
		var want, got []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(local, f.Name) {
				if f.Name == "number" {
					f.Shorthand = "" // there, -n is the namespace, as in kubectl
				}
				want = append(want, f.Name+" "+f.Shorthand+" "+takes(f.NoOptDefVal == "")+words(f.Name, f.Usage))
			}
		})
		for _, f := range v.Flags {
			if f.Name == "wait" || slices.Contains(own[v.Name], f.Name) {
				continue
			}
			got = append(got, f.Name+" "+f.Short+" "+takes(f.Value != "")+words(f.Name, f.Usage))
		}
		assert.ElementsMatch(t, want, got, v.Name)
	}
}

// words returns the usage of --output, which has the words that it takes.
func words(flag, usage string) string {
	if flag != "output" {
		return ""
	}
	return strings.TrimPrefix(usage, "`FORMAT`: ")
}

func takes(value bool) string {
	if value {
		return "VALUE"
	}
	return ""
}

// TestPodCommand: a verb for a pod takes what follows two dashes as probes, and starts no command.
func TestPodCommand(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	to := &console.Console{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
	err := runVerb(t.Context(), to, &inpod.Allowance{}, []string{"count", "a:b", "--", "touch", ran})
	require.ErrorContains(t, err, `"touch" is not [FILE:]PROVIDER:PROBE`)
	require.NoFileExists(t, ran)
}
