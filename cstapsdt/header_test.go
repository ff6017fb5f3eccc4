//go:build linux && cgo && !stapsdt_nocgo

package cstapsdt

import (
	"fmt"
	"os"
	"os/exec"
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

// preprocessed returns what the compiler makes of the header.
func preprocessed(t *testing.T, options ...string) string {
	t.Helper()
	out, err := exec.Command("cc", append(options, "-E", "libstapsdt.h")...).Output()
	require.NoError(t, err)
	return string(out)
}

// enumerators returns the values of the constants of each type in the header.
func enumerators(t *testing.T, options ...string) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for _, enum := range regexp.MustCompile(`(?s)typedef enum \{(.*?)\} (\w+);`).FindAllStringSubmatch(preprocessed(t, options...), -1) {
		values := map[string]string{}
		for _, m := range regexp.MustCompile(`(\w+) = (-?\d+)`).FindAllStringSubmatch(enum[1], -1) {
			values[m[1]] = m[2]
		}
		all[enum[2]] = values
	}
	require.Len(t, all, 4)
	return all
}

// TestShortNames: each constant without a prefix has a twin with one, and only the latter are left with SDT_NO_SHORT_NAMES.
func TestShortNames(t *testing.T) {
	capital := regexp.MustCompile(`[A-Z]`)
	long := enumerators(t, "-DSDT_NO_SHORT_NAMES")
	short := 0
	for kind, values := range enumerators(t) {
		for name, value := range values {
			if strings.HasPrefix(name, "sdt_") {
				require.Equal(t, value, long[kind][name], name)
				continue
			}
			twin := "sdt_" + strings.ToLower(capital.ReplaceAllString(name, "_$0"))
			require.Equal(t, value, long[kind][twin], twin)
			short++
		}
	}
	require.Equal(t, 6+9+2, short)
	for kind, values := range long {
		for name := range values {
			require.Regexp(t, "^sdt_", name, kind)
		}
	}
	before := strings.Split(preprocessed(t, "-dM", "-DLIBSTAPSDT_H", "-include", "stddef.h", "-include", "stdint.h"), "\n")
	macros := func(options ...string) (names []string) {
		for _, line := range strings.Split(preprocessed(t, append(options, "-dM")...), "\n") {
			if words := strings.Fields(line); len(words) > 1 && !slices.Contains(before, line) {
				names = append(names, words[1])
			}
		}
		return names
	}
	require.Contains(t, macros(), "MAX_ARGUMENTS")
	for _, name := range macros("-DSDT_NO_SHORT_NAMES") {
		require.Regexp(t, "^(SDT_|LIBSTAPSDT_H$)", name)
	}
}
