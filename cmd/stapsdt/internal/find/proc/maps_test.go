//go:build linux

package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseMapping(t *testing.T) {
	m, ok := parseMapping([]byte("7f1c2a000000-7f1c2a001000 r-xp 00001000 fe:01 12345      /a b (deleted)"))
	want := Mapping{Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Offset: 0x1000, Executable: true, File: File{0xfe01, 12345, "/a b (deleted)"}}
	assert.True(t, ok, m)
	assert.Equal(t, want, m)
	for _, line := range []string{
		"", "x", "7f1c2a000000-7f1c2a001000 r-xp 00000000 00:00",
		"7f1c2a000000 r-xp 00000000 00:00 1          /a",
		"7f1c2a000000-7f1c2a001000 r-xp 0000000y 00:00 1          /a",
		"7f1c2a000000-7f1c2a001000 r 00000000 00:00 1          /a",
	} {
		m, ok := parseMapping([]byte(line))
		assert.False(t, ok, "%q: %+v", line, m)
	}
}

// TestParseAnonymous: memory that is not of a file, with and without a name.
func TestParseAnonymous(t *testing.T) {
	for line, want := range map[string]Mapping{
		"7f1c2a000000-7f1c2a001000 rw-p 00000000 00:00 0":                 {Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Writable: true},
		"7f1c2a000000-7f1c2a001000 rwxp 00000000 00:00 0 ":                {Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Executable: true, Writable: true},
		"7f1c2a000000-7f1c2a001000 r-xp 00000000 00:00 0          [vdso]": {Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Executable: true, File: File{Path: "[vdso]"}},
	} {
		m, ok := parseMapping([]byte(line))
		assert.True(t, ok, "%q: %+v", line, m)
		assert.Equal(t, want, m, line)
		assert.False(t, m.IsFile(), "%q: %+v", line, m)
	}
}

func TestOwnProcess(t *testing.T) {
	mappings, more, err := Mappings(os.Getpid())
	require.NoError(t, err)
	require.NotEmpty(t, mappings)
	assert.False(t, more)
	assert.True(t, Alive(os.Getpid()), "Alive is wrong")
	assert.False(t, Alive(1<<30), "Alive is wrong")
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string]string{"0": "[0]", "0-2": "[0 1 2]", "0-1,4,6-7": "[0 1 4 6 7]"} {
		got, err := parseCPUs(list)
		assert.NoError(t, err, list)
		assert.Equal(t, want, fmt.Sprint(got), list)
	}
	for _, list := range []string{"", "x", "3-1", "-1", "0-", "0-99999999"} {
		got, err := parseCPUs(list)
		assert.Error(t, err, "%q: %v", list, got)
	}
}

// TestManyMappings: of a process that has mapped more than a limit, the rest is not read.
func TestManyMappings(t *testing.T) {
	directory := t.TempDir()
	for range 14 {
		directory = filepath.Join(directory, strings.Repeat("d", 250))
		require.NoError(t, os.Mkdir(directory, 0o700))
	}
	file, err := os.Create(filepath.Join(directory, "file"))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(int64(os.Getpagesize())))
	_, more, err := Mappings(os.Getpid())
	require.NoError(t, err)
	require.False(t, more)
	for range maxPaths/len(file.Name()) + 1 {
		defer mapExecutable(t, file)()
	}
	all, more, err := Mappings(os.Getpid())
	require.NoError(t, err)
	require.True(t, more)
	require.LessOrEqual(t, len(all)*len(file.Name()), maxPaths+1<<20)
}
