//go:build linux && cgo && !stapsdt_nocgo

package cstapsdt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/argname"

	"github.com/stretchr/testify/require"
)

// TestSameNames: C accepts the names of arguments that Go accepts.
func TestSameNames(t *testing.T) {
	names := strings.Fields(strings.Join(argname.Reserved[:], " "))
	for _, name := range names {
		require.NotEmpty(t, argname.Fault(name), name)
		names = append(names, name+"_", name[1:], "_"+name)
	}
	names = append(names, "", "a", "Z", "_", "9", "a9", "a b", "a-b", "ä", "\xff", "a\x7f", strings.Repeat("x", 32), strings.Repeat("x", 33))
	for c := range 255 {
		names = append(names, string(rune(c+1)), "a"+string(rune(c+1)))
	}
	c, err := NewProvider("names")
	require.NoError(t, err)
	defer c.Close()
	for i, name := range names {
		err := c.addNamedProbe(fmt.Sprint("probe", i), []string{name}, []int8{8})
		require.Equal(t, argname.Fault(name) == "", err == nil, "%q: %s, %v", name, argname.Fault(name), err)
	}
}
