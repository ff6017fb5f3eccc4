//go:build linux

package corpus

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// libbpfParser builds a program that reads arguments as libbpf does, from the source of
// Debian's package.
func libbpfParser(t *testing.T) string {
	t.Helper()
	gcc := testenv.NeedsTool(t, "gcc", "gcc")
	_, err := os.Stat("/usr/include/libelf.h")
	testenv.Needs(t, "libelf.h (package libelf-dev)", err)
	const suite, arch = "bookworm", "amd64"
	tree := filepath.Join(debian.Cache(t), "libbpf-"+suite)
	if _, err := os.Stat(tree); err != nil {
		work, err := os.MkdirTemp(debian.Cache(t), "new-")
		require.NoError(t, err)
		defer os.RemoveAll(work)
		testenv.Downloads(t, "libbpf-dev", debian.Apt(t, work, suite, arch, "download", "libbpf-dev")) // so that the archive is known
		list, err := os.ReadFile(filepath.Join(debian.State(t, suite, arch), "etc", "apt", "sources.list"))
		require.NoError(t, err)
		sources := filepath.Join(work, "sources.list")
		require.NoError(t, os.WriteFile(sources, []byte("deb-src"+strings.TrimPrefix(string(list), "deb")), 0o644))
		lists := filepath.Join(work, "lists")
		require.NoError(t, os.MkdirAll(filepath.Join(lists, "partial"), 0o755))
		options := []string{"-o", "Dir::Etc::sourcelist=" + sources, "-o", "Dir::State::lists=" + lists}
		testenv.Downloads(t, "the lists of sources", debian.Apt(t, work, suite, arch, append(options, "update")...))
		testenv.Downloads(t, "libbpf's source", debian.Apt(t, work, suite, arch, append(options, "source", "--download-only", "libbpf")...))
		archives, err := filepath.Glob(filepath.Join(work, "libbpf_*.orig.tar.*"))
		require.NoError(t, err)
		require.Len(t, archives, 1)
		files := filepath.Join(work, "files")
		require.NoError(t, os.Mkdir(files, 0o755))
		out, err := exec.Command("tar", "-x", "-C", files, "--strip-components=1", "-f", archives[0]).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NoError(t, os.Rename(files, tree))
	}
	program := filepath.Join(t.TempDir(), "libbpf")
	sources, err := filepath.Glob(filepath.Join(tree, "src", "*.c"))
	require.NoError(t, err)
	args := []string{"-w", "-O1", "-D_LARGEFILE64_SOURCE", "-D_FILE_OFFSET_BITS=64", "-o", program,
		"-I" + tree + "/src", "-I" + tree + "/include", "-I" + tree + "/include/uapi", "testdata/libbpf.c"}
	for _, s := range sources {
		if filepath.Base(s) != "usdt.c" {
			args = append(args, s)
		}
	}
	out, err := exec.Command(gcc, append(args, "-lelf", "-lz")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
