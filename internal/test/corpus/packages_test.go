//go:build linux

package corpus

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/test/debian"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// corpus is the programs of one architecture. Those of its first release are read or, if the
// mirror does not have them, those of another one, which are compiled for the same registers.
type corpus struct {
	arch     string
	releases []release
}

// release says which packages of a release have probes. The names contain versions, which a
// release that is out does not change.
type release struct {
	suite string
	names []string
}

var (
	bookworm = release{"bookworm", []string{"postgresql-15", "php8.2-cli", "libruby3.1", "libstdc++6"}}
	trixie   = release{"trixie", []string{"postgresql-17", "php8.4-cli", "libruby3.3", "libstdc++6"}}
	// The last ones, of which a package can vanish.
	forky = release{"forky", []string{"postgresql-18", "php8.4-cli", "libruby3.3", "libstdc++6"}}
)

var corpora = []corpus{
	{"amd64", []release{{"bookworm", append([]string{"openjdk-17-jre-headless"}, bookworm.names...)}, trixie}},
	{"arm64", []release{bookworm, trixie}},
	{"i386", []release{bookworm, trixie}},
	{"armhf", []release{bookworm, trixie}},
	{"ppc64el", []release{bookworm, trixie}},
	{"s390x", []release{bookworm, trixie}},
	{"riscv64", []release{trixie, forky}},
}

// unpack returns the directories of the packages of the first release that can be had.
func (c corpus) unpack(t *testing.T) (trees []string) {
	t.Helper()
	var faults error
	for _, r := range c.releases {
		trees, err := r.unpack(t, c.arch)
		if err == nil {
			return trees
		}
		faults = errors.Join(faults, err)
	}
	testenv.Downloads(t, "packages of "+c.arch, faults)
	return nil
}

func (r release) unpack(t *testing.T, arch string) (trees []string, err error) {
	t.Helper()
	for _, name := range r.names {
		tree, err := debian.Unpack(t, r.suite, arch, name)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree)
	}
	return trees, nil
}

// elfFiles returns the ELF files below a directory.
func elfFiles(t *testing.T, dir string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var magic [4]byte
		if _, err := f.ReadAt(magic[:], 0); err == nil && string(magic[:]) == "\x7fELF" {
			paths = append(paths, path)
		}
		return nil
	}))
	return paths
}
