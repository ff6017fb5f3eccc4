//go:build linux

package target

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNamed: a spec with an executable looks into files with that name alone, and knows a file that was
// deleted by its name.
func TestNamed(t *testing.T) {
	one, err := spec.Parse("go:main.f")
	require.NoError(t, err)
	f := NewFinder()
	f.SelectFunctions([]spec.Spec{one})
	assert.Len(t, f.functionSpecs(&File{Path: "/usr/bin/other"}), 1)
	for pattern, names := range map[string]map[string]bool{
		"shop":   {"/usr/bin/shop": true, "/x/shop (deleted)": true, "/usr/bin/shop2": false, "/shop/other": false},
		"shop-*": {"/usr/bin/shop-1": true, "/usr/bin/shop": false, "/shop-1/x": false},
		"*op*":   {"/usr/bin/shop-1": true, "/usr/bin/op": true, "/op/x": false},
	} {
		one.Executable = pattern
		f.SelectFunctions([]spec.Spec{one})
		for path, is := range names {
			assert.Equal(t, is, len(f.functionSpecs(&File{Path: path})) == 1, "%s %s", pattern, path)
		}
	}
}
