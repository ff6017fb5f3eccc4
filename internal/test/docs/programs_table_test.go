//go:build linux

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/debian"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// programRow is a row of the table of docs/programs.md, whose cells are program, package, files,
// providers, and the number of probes.
var programRow = regexp.MustCompile(`(?m)^\| [^|]+ \| ([a-z0-9.+-]+) \| ([^|]+) \| [^|]+ \| (\d+): `)

// TestProgramsTable: the files of Debian's packages have as many probes as the table says.
func TestProgramsTable(t *testing.T) {
	testenv.Downloads(t, "packages of Debian", nil)
	needsAMD64(t)
	rows := programRow.FindAllStringSubmatch(readFile(t, root+"docs/programs.md"), -1)
	require.Len(t, rows, 11)
	for _, row := range rows {
		t.Run(row[1], func(t *testing.T) {
			dir, err := debian.Unpack(t, "bookworm", "amd64", row[1])
			testenv.Downloads(t, row[1], err)
			found := map[string]bool{}
			for file := range strings.SplitSeq(row[2], ", ") {
				for _, path := range unpacked(t, dir, strings.Trim(strings.TrimSpace(file), "`")) {
					probes, err := sdt.ReadFile(path)
					require.NoError(t, err)
					for _, p := range probes {
						found[p.Provider+":"+p.Name] = true
					}
				}
			}
			require.Equal(t, row[3], strconv.Itoa(len(found)))
		})
	}
}

// unpacked returns the files of a package that a path of the table names.
func unpacked(t *testing.T, dir, path string) (files []string) {
	t.Helper()
	rest, anywhere := strings.CutPrefix(path, "…")
	err := filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err == nil && (file == dir+path || anywhere && strings.HasSuffix(file, rest)) {
			files = append(files, file)
		}
		return err
	})
	require.NoError(t, err)
	require.Len(t, files, 1, path)
	return files
}
