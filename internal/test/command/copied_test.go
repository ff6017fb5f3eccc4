//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// TestOverlayCopied: an overlay copies a program whose mode changes. Processes of the copy are traced, those of the file before it
// go on to be, and no event is counted twice, also after a change that copies nothing.
func TestOverlayCopied(t *testing.T) {
	testenv.NeedsRoot(t)
	provider, programs := versions(t, 2)
	for _, name := range []string{"export", "trace -a", "trace FILE"} {
		t.Run(name, func(t *testing.T) {
			lower := t.TempDir()
			overwrite(t, programs[1], filepath.Join(lower, "app"))
			app := filepath.Join(overlay(t, lower), "app")
			count := tracersOf[name](t, provider, app)
			before := count()
			old := tracetest.Command(t, exec.Command(app, "20", "-"))
			sites, err := sdt.ReadFile(app)
			require.NoError(t, err)
			content, err := os.ReadFile(app)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				b := make([]byte, 1)
				return tracetest.ReadMapped(old.PID(), app, sites[0].Offset, b) == nil && b[0] != content[sites[0].Offset]
			}, testenv.Patience, time.Millisecond)
			fired := 0
			for _, mode := range []os.FileMode{0o700, 0o750} {
				require.NoError(t, os.Chmod(app, mode))
				requireTraced(t, app, 20)
				fired += 20
			}
			old.Say("fire")
			require.NoError(t, old.Wait(testenv.Patience))
			fired += 20
			require.Eventually(t, func() bool { return count()-before >= fired }, testenv.Patience, 5*time.Millisecond)
			require.Equal(t, fired, count()-before)
		})
	}
}
