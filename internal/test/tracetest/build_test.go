//go:build linux

package tracetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// source makes a module whose program prints a word.
func source(t *testing.T, directory, word string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "go.mod"), []byte("module demo\n"), 0o600))
	main := "package main\n\nfunc main() { print(`" + word + "`) }\n"
	require.NoError(t, os.WriteFile(filepath.Join(directory, "main.go"), []byte(main), 0o600))
}

func TestBuild(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	source(t, one, "one")
	source(t, two, "two")
	var b builds
	prints := func(directory, word string) string {
		program, err := b.build(directory)
		require.NoError(t, err)
		out, err := exec.Command(program).CombinedOutput()
		require.NoError(t, err)
		require.Equal(t, word, string(out))
		return program
	}
	var built []string
	require.Equal(t, 7, b.during(func() int {
		built = append(built, prints(one, "one"), prints(two, "two"))
		source(t, one, "another")
		require.Equal(t, built[0], prints(one, "one"), "it was built again")
		return 7
	}))
	for _, program := range built {
		require.NoFileExists(t, program)
		require.NoDirExists(t, filepath.Dir(program))
	}
}

// TestBuildEnv: a program that is built with another environment is another one.
func TestBuildEnv(t *testing.T) {
	directory := t.TempDir()
	source(t, directory, "plain")
	tagged := "//go:build tagged\n\npackage main\n\nfunc init() { print(`tagged and `) }\n"
	require.NoError(t, os.WriteFile(filepath.Join(directory, "tagged.go"), []byte(tagged), 0o600))
	var b builds
	b.during(func() int {
		for _, c := range []struct {
			want string
			env  []string
		}{{"plain", nil}, {"tagged and plain", []string{"GOFLAGS=-tags=tagged"}}, {"plain", nil}} {
			program, err := b.build(directory, c.env...)
			require.NoError(t, err)
			out, err := exec.Command(program).CombinedOutput()
			require.NoError(t, err)
			require.Equal(t, c.want, string(out))
		}
		return 0
	})
}

func TestBuildFails(t *testing.T) {
	var b builds
	_, err := b.build(".")
	require.ErrorContains(t, err, "TestMain")

	directory := t.TempDir()
	source(t, directory, "`?`")
	b.during(func() int {
		for range 2 {
			_, err := b.build(directory)
			require.ErrorContains(t, err, "main.go:3")
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
		}
		_, err := b.build(filepath.Join(directory, "nowhere"))
		require.ErrorIs(t, err, os.ErrNotExist)
		return 0
	})
	// The tests of this package have a TestMain of their own.
	f := try(func(t testing.TB) { Build(t, directory) })
	require.True(t, f.failed)
}
