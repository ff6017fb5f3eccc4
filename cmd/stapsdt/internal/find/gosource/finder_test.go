//go:build linux

package gosource

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// put writes a file that was written an hour ago.
func put(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	require.NoError(t, os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour)))
	return name
}

// TestFinder: a source is found at its own path if it is older than the program, and otherwise below a named directory, in the module cache,
// or in the distribution of the program's version.
func TestFinder(t *testing.T) {
	dir, cache, goroot := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("GOMODCACHE", cache)
	t.Setenv("GOROOT", goroot)
	text := "package p\n\nfunc f(a int) {}\n"
	name := put(t, text, dir, "shop", "cart.go")
	put(t, text, cache, "example.com", "!upper@v1.2.3", "a.go")
	put(t, text, goroot, "src", "made", "up.go")
	put(t, "go1.26.8\ntime 2026", goroot, "VERSION")
	p := Program{Version: "go1.26.8", Built: time.Now()}
	old := Program{Version: "go1.25.1", Built: time.Now().Add(-2 * time.Hour)}

	found := func(f *Finder, p Program, path string) {
		t.Helper()
		file, err := f.Find(p, path)
		require.NoError(t, err)
		require.NotNil(t, file.Find("a", 3))
	}
	fails := func(f *Finder, p Program, path, message string) {
		t.Helper()
		_, err := f.Find(p, path)
		require.ErrorContains(t, err, message)
	}
	named := func() *Finder { return &Finder{Directories: []string{filepath.Join(dir, "shop")}} }
	found(&Finder{}, p, name)
	fails(&Finder{}, old, name, "was written after the program: if it is right, name its directory with --source")
	fails(&Finder{Limited: true}, p, name, "its source was not found: --source DIR names a directory that has it")
	found(named(), old, name)
	found(named(), old, "/other/machine/shop/cart.go")
	found(named(), old, "example.com/shop/cart.go")
	found(&Finder{Limited: true}, p, "example.com/Upper@v1.2.3/a.go")
	found(&Finder{}, p, "/home/other/go/pkg/mod/example.com/!upper@v1.2.3/a.go")
	found(&Finder{}, p, "made/up.go")
	fails(&Finder{}, old, "made/up.go", "its source was not found")
	fails(named(), p, "example.com/shop/other.go", "its source was not found")
	fails(&Finder{}, p, put(t, "\x7fELF", dir, "x.go"), "x.go is not Go")
	fails(&Finder{}, p, dir, "is a directory")

	pipe := filepath.Join(dir, "pipe.go")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	fails(&Finder{}, p, pipe, "it is not a regular file")
	large := put(t, "", dir, "large.go")
	require.NoError(t, os.Truncate(large, maxSize+1))
	require.NoError(t, os.Chtimes(large, time.Time{}, time.Now().Add(-time.Hour)))
	fails(&Finder{}, p, large, "large.go is larger than may be read")
}
