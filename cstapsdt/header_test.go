//go:build linux && cgo && !stapsdt_nocgo

package cstapsdt

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// matches returns what the groups of a pattern match in a file, one after another.
func matches(t *testing.T, path, pattern string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, groups := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		all = append(all, groups[1:])
	}
	require.NotEmpty(t, all, "%s has no %s", path, pattern)
	return all
}

// headerVersion returns the version in the header, as the number that C compares.
func headerVersion(t *testing.T) (major, minor, patch, number uint64) {
	t.Helper()
	n := numbers(t, "libstapsdt.h", `#define SDT_VERSION_MAJOR (\d+)\n#define SDT_VERSION_MINOR (\d+)\n#define SDT_VERSION_PATCH (\d+)\n`)
	return n[0], n[1], n[2], n[0]*1000000 + n[1]*1000 + n[2]
}

// TestVersion: the Debian packages have the version of the header and its date, and its comment has the number.
func TestVersion(t *testing.T) {
	major, minor, patch, number := headerVersion(t)
	version := fmt.Sprintf("%d.%d.%d", major, minor, patch)
	latest := matches(t, "debian/changelog", `(?m)^libstapsdt \((.*)\) unstable`)[0]
	require.Equal(t, version, latest[0])
	date := matches(t, "Makefile", `(?m)^DATE = (.*)$`)[0][0]
	packaged := matches(t, "debian/changelog", `(?m)^ -- .*  \w+, (\d+) (\w+) (\d+) `)[0]
	months := strings.Fields("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")
	require.Equal(t, fmt.Sprintf("%s-%02d-%s", packaged[2], 1+slices.Index(months, packaged[1]), packaged[0]), date)
	require.Equal(t, [][]string{{version, fmt.Sprint(number)}}, matches(t, "libstapsdt.h", `(\d+\.\d+\.\d+) is (\d+)\.`))
}

// TestExported: the header, the linker's map and the Debian package have the same functions, and none came with a later version.
func TestExported(t *testing.T) {
	var declared, exported, packaged []string
	for _, m := range matches(t, "libstapsdt.h", `(?m)^SDT_API [^(]*?(\w+)\(`) {
		declared = append(declared, m[0])
	}
	for _, m := range matches(t, "libstapsdt.map", `(?m)^\t\t(\w+);$`) {
		exported = append(exported, m[0])
	}
	_, _, _, newest := headerVersion(t)
	for _, m := range matches(t, "debian/libstapsdt0.symbols", `(?m)^ (\w+)@Base ([\d.]+)$`) {
		packaged = append(packaged, m[0])
		var major, minor, patch uint64
		_, err := fmt.Sscanf(m[1], "%d.%d.%d", &major, &minor, &patch)
		require.NoError(t, err)
		require.LessOrEqual(t, major*1000000+minor*1000+patch, newest, m[0])
	}
	require.ElementsMatch(t, declared, exported)
	require.ElementsMatch(t, declared, packaged)
	require.IsIncreasing(t, packaged)
}

// TestEnvironment: the header lists the variables that the library reads, and describes each in one place.
func TestEnvironment(t *testing.T) {
	var listed, read []string
	for _, m := range matches(t, "libstapsdt.h", `(?m)^ \*\t(STAPSDT_[A-Z]+)=[A-Z1]+ +\w`) {
		listed = append(listed, m[0])
	}
	for _, dir := range []string{".", "recorder", "socket"} {
		files, err := filepath.Glob(dir + "/*.c")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`"(STAPSDT_[A-Z]+)"`).FindAllStringSubmatch(string(text), -1) {
				read = append(read, m[1])
			}
		}
	}
	slices.Sort(read)
	require.ElementsMatch(t, slices.Compact(read), listed)
}
