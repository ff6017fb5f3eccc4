//go:build linux && !amd64

package site

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/image"

	"github.com/stretchr/testify/require"
)

func TestTheFirstKindIsChosen(t *testing.T) {
	require.NotEmpty(t, Chosen())
	require.Equal(t, &image.Host().Sites[0], image.Host().SiteByName(Chosen()))
}
