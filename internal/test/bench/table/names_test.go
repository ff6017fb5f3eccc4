//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestNamesAddLittle: a program with twenty probes has less than 40 KB more in its sections
// if their arguments have names, and a program without names has nothing of what makes them.
func TestNamesAddLittle(t *testing.T) {
	testenv.LongOnce(t, "it builds programs")
	testenv.NeedsTool(t, "go", "golang")
	dir := t.TempDir()
	build := func(tags, ldflags string) string {
		path := filepath.Join(dir, tags+ldflags)
		cmd := exec.Command("go", "build", "-tags", tags, "-ldflags", ldflags, "-o", path, "../hello")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return path
	}
	size := func(path string) float64 {
		bytes, err := sectionBytes(path)
		require.NoError(t, err)
		return bytes / 1000
	}
	added := size(build("named", "-s -w")) - size(build("bare", "-s -w"))
	t.Logf("%.1f KB", added)
	require.Less(t, added, float64(maxNames))
	require.Positive(t, added)

	encoder := []byte("internal/dwarf.Encode")
	for tags, has := range map[string]bool{"named": true, "bare": false, "probes": false} {
		program, err := os.ReadFile(build(tags, ""))
		require.NoError(t, err)
		require.Equal(t, has, bytes.Contains(program, encoder), tags)
	}
}

// TestNamesInFile: in the file of twenty probes, a named argument takes at most 40 bytes
// more than one without a name, all that describes the file included.
func TestNamesInFile(t *testing.T) {
	file := func(named bool) int64 {
		p := stapsdt.NewProvider("benchnames", stapsdt.WithDir(t.TempDir()))
		defer p.Close()
		for i := range 20 {
			probe, err := p.AddProbe(fmt.Sprintf("request__%d", i), stapsdt.String, stapsdt.Int32, stapsdt.Uint64, stapsdt.Int64)
			require.NoError(t, err)
			if named {
				require.NoError(t, probe.NameArgs("path", "status", "bytes", "elapsed"))
			}
		}
		require.NoError(t, p.Load())
		info, err := os.Stat(p.Path())
		require.NoError(t, err)
		return info.Size()
	}
	const arguments = 20 * 4
	added := file(true) - file(false)
	t.Logf("%d bytes for each argument", added/arguments)
	require.Positive(t, added)
	require.LessOrEqual(t, added, int64(40*arguments))
}
