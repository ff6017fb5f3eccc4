//go:build linux && (amd64 || arm64)

// Package process tests the package in programs of their own: what a tracer sees of
// them, what they do when their system calls fail, when others attack their files and
// when they are killed.
package process

import (
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

// load loads a provider, and closes it when the test ends.
func load(t testing.TB, p *stapsdt.Provider) {
	t.Helper()
	require.NoError(t, p.Load())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
}

// newProvider defines a provider that is kept in a directory of the test's own.
func newProvider(t testing.TB, name string, opts ...stapsdt.Option) *stapsdt.Provider {
	return stapsdt.NewProvider(name, append([]stapsdt.Option{stapsdt.WithDir(t.TempDir() + "/images")}, opts...)...)
}

// requireOneLine finds that an error can be logged: one line, our prefix once.
func requireOneLine(t *testing.T, err error) {
	t.Helper()
	var e *stapsdt.Error
	require.ErrorAs(t, err, &e)
	text := err.Error()
	require.Equal(t, 1, strings.Count(text, "stapsdt:"), text)
	require.True(t, strings.HasPrefix(text, "stapsdt: "), text)
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), "%q", text)
}

// Types that a program may have of its own.
type (
	userID uint64
	level  int8
	path   string
	blob   []byte
)

// A string and bytes that an argument is made of at run time.
var (
	benchText  = "/index/page.html"
	benchBytes = []byte("/index/page.html")
)
