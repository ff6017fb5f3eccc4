//go:build linux

package probes

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// opener calls a function, and fails.
type opener func()

func (o opener) Open(string) (*target.File, error) { o(); return nil, io.ErrUnexpectedEOF }

// TestReopen: a file that is written while it is read is no error. One that stays as it is is reported, once.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	write := func(age time.Duration) { require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age))) }
	write(time.Hour)
	s := NewSelector(querytest.Specs(path + ":app:a"))
	s.Specs[0].path = path
	for i, open := range []opener{func() { write(2 * time.Hour) }, func() {}, func() {}} {
		_, problems := s.Reopen(open.Open)
		require.Len(t, problems, i%2, i)
	}
}

// TestFirst: the first probe of a spec keeps the names of its arguments when its file is closed.
func TestFirst(t *testing.T) {
	gcc := testenv.NeedsTool(t, "gcc", "gcc")
	path := filepath.Join(t.TempDir(), "described.so")
	out, err := exec.Command(gcc, "-g", "-O2", "-shared", "-fPIC", "-o", path,
		"../../../../../sdt/testdata/described.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	finder := target.NewTracer()
	f, err := finder.Open(path)
	require.NoError(t, err)
	s := NewSelector(querytest.Specs("*:strings"))
	require.True(t, s.Find(f))
	finder.Close()
	first := s.Specs[0].First
	first.Deltas(&first.Site)
	require.Equal(t, "t", first.Site.Args[0].Name)
}

// TestEarly: for a process that has just started, a missing probe may be too early to be there.
func TestEarly(t *testing.T) {
	require.Equal(t, "; process 7 started 1.234s ago, and may not have loaded its probes yet", early(7, 1234432*time.Microsecond))
	mine, ok := proc.Age(os.Getpid())
	require.True(t, ok)
	first, ok := proc.Age(1)
	require.True(t, ok)
	require.LessOrEqual(t, mine, first)
	_, ok = proc.Age(1 << 30)
	require.False(t, ok)
}
