//go:build linux

package target

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTypesByNeed: a tracer reads the types of a probe when it wants them, and others are read at
// once.
func TestTypesByNeed(t *testing.T) {
	gcc := testenv.NeedsTool(t, "gcc", "gcc")
	path := filepath.Join(t.TempDir(), "described.so")
	out, err := exec.Command(gcc, "-g", "-O2", "-shared", "-fPIC", "-o", path, "../../../../../sdt/testdata/described.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	open := func(finder *Finder) (*File, func(string) *sdt.Site) {
		t.Cleanup(func() { finder.Close() })
		f, err := finder.Open(path)
		require.NoError(t, err)
		return f, func(name string) *sdt.Site {
			for i := range f.Probes {
				if f.Probes[i].Name == name {
					return &f.Probes[i]
				}
			}
			require.FailNow(t, name)
			return nil
		}
	}
	_, probe := open(NewFinder())
	assert.Equal(t, "t", probe("strings").Args[0].Name, "a finder does not read types")
	f, probe := open(NewTracer())
	check := func(strings, kinds, eight string) {
		t.Helper()
		for name, want := range map[string]string{"strings": strings, "kinds": kinds, "eight": eight} {
			assert.Equal(t, want, probe(name).Args[0].Name, name)
		}
	}
	check("", "", "")
	one := *probe("strings") // as the engine does it
	f.Deltas(&one)
	check("t", "", "")
	assert.Equal(t, "t", one.Args[0].Name, "a copy has no names")
	f.Deltas(&one)
	check("t", "", "")
	f.Deltas(probe("kinds"))
	check("t", "b", "a")
}

// TestSeparateTypes: the types of a library whose debug information stands in a file beside it are
// those that the library had.
func TestSeparateTypes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "described.so")
	run := func(name string, args ...string) {
		t.Helper()
		tool := testenv.NeedsTool(t, name, "gcc, binutils")
		out, err := exec.Command(tool, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	args := func() map[string][]sdt.Arg {
		finder := NewFinder()
		defer finder.Close()
		f, err := finder.Open(path)
		require.NoError(t, err)
		all := map[string][]sdt.Arg{}
		for _, p := range f.Probes {
			all[p.Name] = p.Args
		}
		return all
	}
	run("gcc", "-g", "-O2", "-shared", "-fPIC", "-o", path, "../../../../../sdt/testdata/described.c")
	want := args()
	require.Equal(t, "t", want["strings"][0].Name)
	run("objcopy", "--only-keep-debug", path, path+".debug")
	run("strip", "--strip-unneeded", "--remove-section=.comment", path)
	require.Empty(t, args()["strings"][0].Name)
	run("objcopy", "--add-gnu-debuglink="+path+".debug", path)
	require.Equal(t, want, args())
}
