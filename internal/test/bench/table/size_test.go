//go:build linux

package table

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys of what a static hello gains by probes, in KB of 1000 bytes.
const (
	addedStripped   = "hello stripped"
	addedUnstripped = "hello unstripped"
	addedLoaded     = "hello loaded"
	addedEnv        = "hello probeenv"   // by probeenv.Load, stripped
	addedNames      = "hello names"      // by the names of twenty probes, stripped
	addedInit       = "hello init"       // packages with init work
	addedInitAllocs = "hello initallocs" // what that allocates
)

// measureHello compares the hello that has probes with the one that has none.
func (r results) measureHello(t testing.TB) {
	for _, m := range []struct {
		key, first, second string
		size               func(t testing.TB, path string) float64
	}{
		{addedStripped, "hello-stripped", "hello-stripped-probes", fileBytes},
		{addedUnstripped, "hello", "hello-probes", fileBytes},
		{addedLoaded, "hello", "hello-probes", loadedBytes},
		{addedEnv, "hello-stripped", "hello-stripped-env", fileBytes},
		{addedNames, "hello-stripped-bare", "hello-stripped-named", sectionBytes},
	} {
		r[m.key] = []float64{(m.size(t, filepath.Join(*work, m.second)) - m.size(t, filepath.Join(*work, m.first))) / 1000}
	}
	// The packages of this module that run code before main in the hello with probes, and what all that are not in the one without allocate.
	without, with := initWork(t, "hello"), initWork(t, "hello-probes")
	require.NotEmpty(t, without, "GODEBUG=inittrace=1 tells nothing")
	packages, allocs := 0.0, 0.0
	for name, n := range with {
		if _, both := without[name]; !both {
			fmt.Fprintf(os.Stderr, "init work: %s, %v allocations\n", name, n)
			if strings.HasPrefix(name, "github.com/go-stapsdt/") {
				packages++
			}
			allocs += n
		}
	}
	r[addedInit], r[addedInitAllocs] = []float64{packages}, []float64{allocs}
}

func fileBytes(t testing.TB, path string) float64 {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return float64(info.Size())
}

// sectionBytes is how much a program's file holds without what aligns its segments, which
// adds anything up to two pages and hides a small difference, or doubles it.
func sectionBytes(t testing.TB, path string) (total float64) {
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS {
			total += float64(s.FileSize)
		}
	}
	return total
}

// loadedBytes is how much of a program is mapped when it runs.
func loadedBytes(t testing.TB, path string) (total float64) {
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			total += float64(p.Memsz)
		}
	}
	return total
}

// initLine is what the runtime prints, with GODEBUG=inittrace=1, for each package
// that has something to do before main.
var initLine = regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) allocs$`)

// initWork returns the packages that run code before main, and how often each
// allocates.
func initWork(t testing.TB, program string) map[string]float64 {
	cmd := exec.Command(filepath.Join(*work, program))
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	packages := map[string]float64{}
	for _, m := range initLine.FindAllStringSubmatch(string(out), -1) {
		packages[m[1]], err = strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
	}
	return packages
}
