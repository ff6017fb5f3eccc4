//go:build linux

package corpus

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// packages says which packages of an architecture have probes, in which release. The names
// contain versions, which a release does not change.
type packages struct {
	arch, suite string
	names       []string
}

var corpora = []packages{
	{"amd64", "bookworm", []string{"postgresql-15", "php8.2-cli", "libruby3.1", "openjdk-17-jre-headless", "libstdc++6"}},
	{"arm64", "bookworm", []string{"postgresql-15", "php8.2-cli", "libruby3.1", "libstdc++6"}},
	{"i386", "bookworm", []string{"postgresql-15", "php8.2-cli", "libruby3.1", "libstdc++6"}},
	{"armhf", "bookworm", []string{"postgresql-15", "php8.2-cli", "libruby3.1", "libstdc++6"}},
	{"ppc64el", "bookworm", []string{"postgresql-15", "php8.2-cli", "libruby3.1", "libstdc++6"}},
	{"s390x", "bookworm", []string{"postgresql-15", "php8.2-cli", "libruby3.1", "libstdc++6"}},
	{"riscv64", "trixie", []string{"postgresql-17", "php8.4-cli", "libruby3.3", "libstdc++6"}},
}

// cache returns the directory of what was downloaded, which scripts/lib uses too.
func cache(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("STAPSDT_CACHE")
	if dir == "" {
		home, err := os.UserCacheDir()
		require.NoError(t, err)
		dir = filepath.Join(home, "stapsdt")
	}
	dir = filepath.Join(dir, "corpus")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// apt runs apt-get for a release and an architecture in a directory.
func apt(t *testing.T, dir, suite, arch string, args ...string) {
	t.Helper()
	testenv.NeedsTool(t, "apt-get", "apt")
	testenv.NeedsTool(t, "dpkg-deb", "dpkg")
	script, err := filepath.Abs("../../../scripts/lib/debian.sh")
	require.NoError(t, err)
	// The state of apt is the one that scripts/lib/kernels.sh keeps, and so are its lists.
	state := filepath.Join(filepath.Dir(cache(t)), "apt", suite+"-"+arch)
	cmd := exec.Command("bash", append([]string{"-c", `. "$0" && foreign_apt "$@"`, script, state, suite, arch, "apt-get", "-qq"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, out)
	}
	testenv.Needs(t, "Debian's packages", err)
}

// unpack returns the directory of a package's files.
func unpack(t *testing.T, p packages, name string) string {
	t.Helper()
	tree := filepath.Join(cache(t), p.arch+"-"+p.suite, name)
	if _, err := os.Stat(tree); err == nil {
		return tree
	}
	work, err := os.MkdirTemp(cache(t), "new-")
	require.NoError(t, err)
	defer os.RemoveAll(work)
	apt(t, work, p.suite, p.arch, "download", name)
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	require.NoError(t, err)
	require.Len(t, debs, 1)
	files := filepath.Join(work, "files")
	out, err := exec.Command("dpkg-deb", "-x", debs[0], files).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.MkdirAll(filepath.Dir(tree), 0o755))
	require.NoError(t, os.Rename(files, tree))
	return tree
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
	const suite = "bookworm"
	tree := filepath.Join(cache(t), "libbpf-"+suite)
	if _, err := os.Stat(tree); err != nil {
		work, err := os.MkdirTemp(cache(t), "new-")
		require.NoError(t, err)
		defer os.RemoveAll(work)
		apt(t, work, suite, "amd64", "download", "libbpf-dev") // so that the archive is known
		list, err := os.ReadFile(filepath.Join(filepath.Dir(cache(t)), "apt", suite+"-amd64", "etc", "apt", "sources.list"))
		require.NoError(t, err)
		sources := filepath.Join(work, "sources.list")
		require.NoError(t, os.WriteFile(sources, []byte("deb-src"+strings.TrimPrefix(string(list), "deb")), 0o644))
		lists := filepath.Join(work, "lists")
		require.NoError(t, os.MkdirAll(filepath.Join(lists, "partial"), 0o755))
		options := []string{"-o", "Dir::Etc::sourcelist=" + sources, "-o", "Dir::State::lists=" + lists}
		apt(t, work, suite, "amd64", append(options, "update")...)
		apt(t, work, suite, "amd64", append(options, "source", "--download-only", "libbpf")...)
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
