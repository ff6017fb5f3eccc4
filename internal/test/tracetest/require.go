//go:build linux

package tracetest

import (
	"os"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// NeedUprobes is [testenv.Needs] for the kernel's uprobe PMU, and for root, without which it is of no use.
func NeedUprobes(t testing.TB) {
	t.Helper()
	_, err := os.Stat(uprobePMU)
	testenv.NeedsRoot(t)
	testenv.Needs(t, "uprobes", err)
}
