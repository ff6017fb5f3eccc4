//go:build linux && (amd64 || arm64) && cgo && !stapsdt_nocgo && !stapsdt_noload

package stapsdt

import (
	"errors"
	"testing"

	"github.com/go-stapsdt/stapsdt/cstapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestCodeOfC: C's code for a failure is that of the same name in Go.
func TestCodeOfC(t *testing.T) {
	needLibelf(t)
	chosen := chooseNop
	t.Cleanup(func() { chooseNop = chosen })
	chooseNop = func() (*image.Nop, error) { return &image.Nop{Name: "no such nop"}, nil }
	var e *Error
	require.ErrorAs(t, newProvider(t, "code").Load(), &e)
	require.Equal(t, ELFCreation, e.Code, "%v", e)
	require.NotErrorIs(t, e, ErrPlace)
	requireOneLine(t, e)
}

// needLibelf skips a test of what the C library builds where it cannot, and fails it
// where CI=true: that all images are made in Go there must not go unnoticed.
func needLibelf(t *testing.T) {
	t.Helper()
	testenv.NotSanitized(t, "the memory sanitizer knows nothing of what libelf has written, so images are built in Go")
	if !cstapsdt.HasLibelf() {
		testenv.Needs(t, "libelf", errors.New("no headers, no library, or a static program"))
	}
}

// TestLibelfBuilds: where there is libelf, it builds the images.
func TestLibelfBuilds(t *testing.T) {
	needLibelf(t)
	p := newProvider(t, "builder")
	NewProbe1[int](p, "probe")
	im, err := p.loader.imager.image(p.spec(), image.Host(), &image.Host().Nops[0])
	require.NoError(t, err)
	require.Equal(t, "libelf", im.Builder)
}

// TestCloseFreesC: what C has of a provider does not wait for the garbage
// collector.
func TestCloseFreesC(t *testing.T) {
	needLibelf(t)
	p := newProvider(t, "close")
	require.NoError(t, p.Load())
	require.NotNil(t, p.loader.imager.c)
	require.NoError(t, p.Unload())
	require.NotNil(t, p.loader.imager.c, "the next load needs it")
	require.NoError(t, p.Close())
	require.Nil(t, p.loader.imager.c)
}
