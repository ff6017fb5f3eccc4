//go:build linux && cgo && !stapsdt_nocgo

package cstapsdt

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbers returns the numbers that the groups of a pattern match in a file.
func numbers(t *testing.T, path, pattern string) []uint64 {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	groups := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
	require.NotNil(t, groups, "%s has no %s", path, pattern)
	var list []uint64
	for _, g := range groups[1:] {
		n, err := strconv.ParseUint(g, 0, 8)
		require.NoError(t, err)
		list = append(list, n)
	}
	return list
}

// TestSamePatchedBytes: C and Go consider the same bytes patched, on every
// architecture.
func TestSamePatchedBytes(t *testing.T) {
	for arch, macro := range map[string]string{"x86": `__x86_64__\) \|\| defined\(__i386__`, "arm64": "__aarch64__",
		"riscv64": "__riscv", "s390x": "__s390x__", "ppc64le": "__powerpc64__", "arm": "__arm__"} {
		want := numbers(t, "../internal/call/site_"+arch+".go", `const Mask, Bits = (\w+), (\w+)`)
		got := numbers(t, "libstapsdt.h", `if defined\(`+macro+`\)\n#define SDT_PATCHED_MASK (\w+)\n#define SDT_PATCHED_BITS (\w+)`)
		require.Equal(t, want, got, arch)
	}
}
