//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
)

// TestMain builds the command. Several runs can use the machine: each names its own processes.
func TestMain(m *testing.M) {
	tracetest.BuildMain(m)
}

// stapsdt returns the path of the command.
func stapsdt(t testing.TB) string {
	return tracetest.Build(t, "../../../cmd/stapsdt", "CGO_ENABLED=0")
}
