//go:build linux && !amd64

package site

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/image"

	"github.com/stretchr/testify/require"
)

func TestTheFirstKindIsChosen(t *testing.T) {
	require.Same(t, &image.Host().Nops[0], Chosen())
}
