//go:build linux && (amd64 || arm64)

package scale

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
)

func TestMain(m *testing.M) { tracetest.BuildMain(m) }
