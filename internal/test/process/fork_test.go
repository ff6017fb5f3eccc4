//go:build linux && (amd64 || arm64) && cgo

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// TestForkWhileTraced: a child that a program in another language forks while a tracer
// is attached lives, and is traced as its parent is. With Linux 6.18 the kernel
// has made a call of the site by then, to a trampoline that the child does not have.
func TestForkWhileTraced(t *testing.T) {
	testenv.NotRaced(t, "it starts programs in other languages, which the detector does not know")
	tracetest.NeedUprobes(t)
	python := testenv.NeedsTool(t, "python3", "python3")
	library := filepath.Join(t.TempDir(), "forks.so")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", library, ".")
	build.Dir = "testdata/forks"
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	// A breakpoint is inherited; what must be mapped again needs the file for it.
	var withoutFile uint64
	nop := tracetest.Must(site.ForProcess())(t)
	if nop == &image.Host().Nops[0] {
		withoutFile = 4
	}
	for _, c := range []struct {
		name, step string
		childHits  uint64 // a thousand each
	}{
		{"file", "file", 4},
		{"memfd", "memfd", 4},
		{"a file that is gone", "gone", withoutFile},
		{"after a reload", "reload", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.step == "memfd" || c.step == "reload" {
				testenv.Long(t, "it starts Python four times")
			}
			cmd := exec.Command(python, "testdata/forks/forks.py", library, c.step)
			// A child has one thread, and Go's runtime wants a P for it that none of
			// the others had: with many of them there is one.
			cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir()+"/images", "STAPSDT_SITE="+nop.Name, "GOMAXPROCS=64", "GOGC=off")
			host := tracetest.Command(t, cmd)
			path := host.Expect("path ", testenv.Patience)
			notes := tracetest.Must(sdt.ReadFile(path))(t)
			counter := tracetest.Must(tracetest.CountUprobe(path, notes[0].Offset))(t)
			defer counter.Close()
			if c.step == "gone" {
				require.NoError(t, os.Remove(path))
			}
			host.Say("attached")

			traced := "0"
			if c.childHits > 0 {
				traced = "1"
			}
			require.Equal(t, "1", host.Expect("before ", testenv.Patience))
			for range 3 {
				require.Equal(t, traced, host.Expect("fork ", testenv.Patience))
			}
			require.Equal(t, traced, host.Expect("multiprocessing ", testenv.Patience))
			require.Equal(t, "1", host.Expect("after ", testenv.Patience))
			require.NoError(t, host.Wait(testenv.Patience))
			want := 1000 * (2 + c.childHits)
			if c.step == "reload" {
				want += 1000
			}
			hits := tracetest.Must(counter.Count())(t)
			require.Equal(t, want, hits)
		})
	}
}
