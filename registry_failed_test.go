//go:build linux && (amd64 || arm64) && !stapsdt_noload

package stapsdt

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFailedLoadFreesItsName: a provider whose Load failed, for whatever reason, does not keep
// another one of the same name, with other arguments, from loading.
func TestFailedLoadFreesItsName(t *testing.T) {
	file := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for reason, c := range map[string]struct {
		define func(t *testing.T) *Provider
		want   error
	}{
		"a directory that cannot be used": {func(*testing.T) *Provider {
			return NewProvider("failed", WithDir(file+"/images"))
		}, ErrPlace},
		"a wrong definition": {func(t *testing.T) *Provider {
			p := newProvider(t, "failed")
			NewProbe0(p, "b:d")
			return p
		}, ErrName},
	} {
		t.Run(reason, func(t *testing.T) {
			failed := c.define(t)
			NewProbe1[int](failed, "event")
			t.Cleanup(func() { require.NoError(t, failed.Close()) })
			require.ErrorIs(t, failed.Load(), c.want)
			require.Zero(t, claims("failed"))
			other := newProvider(t, "failed")
			NewProbe1[string](other, "event")
			load(t, other)
			require.Equal(t, 1, claims("failed"))
		})
	}
}
