//go:build linux

package descriptor

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain is also the program that closes its standard files: see child.
func TestMain(m *testing.M) {
	if os.Getenv("DESCRIPTOR_CHILD") != "" {
		child()
		return
	}
	os.Exit(m.Run())
}

// TestClosedStandardFiles: a descriptor is never one of a standard file, nothing can be written to their numbers meanwhile, and they are closed
// afterwards, except for what the program itself has opened there.
func TestClosedStandardFiles(t *testing.T) {
	testenv.NotEmulated(t, "its child is a program of another machine")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "DESCRIPTOR_CHILD=yes")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ended\n", string(out))
}

func child() {
	number, err := unix.FcntlInt(uintptr(unix.Stdout), unix.F_DUPFD_CLOEXEC, 100)
	out := os.NewFile(uintptr(number), "out")
	check := func(good bool, name string, values ...any) {
		if !good {
			fmt.Fprintln(out, name, values)
			os.Exit(1)
		}
	}
	check(err == nil, "fcntl", err)
	for fd := range 3 {
		unix.Close(fd)
	}
	closed := func() (n int) {
		for fd := range 3 {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == unix.EBADF {
				n++
			}
		}
		return n
	}
	isAbove := func(fd int, err error, name string) {
		flags, flagsErr := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		check(err == nil && fd > 2 && flagsErr == nil && flags == unix.FD_CLOEXEC && closed() == 3, name, fd, err, closed())
		unix.Close(fd)
	}

	fd, err := Open(unix.AT_FDCWD, os.TempDir(), unix.O_TMPFILE|unix.O_RDWR, 0o600)
	isAbove(fd, err, "Open")
	fd, err = Socket()
	isAbove(fd, err, "Socket")
	fd, err = New(func() (int, error) {
		check(closed() == 0, "not occupied", closed())
		for fd := range 3 {
			_, err := unix.Write(fd, []byte("printed"))
			check(err == unix.EBADF, "write", fd, err)
		}
		return unix.MemfdCreate("descriptor", unix.MFD_CLOEXEC)
	})
	isAbove(fd, err, "New")
	fd, err = New(func() (int, error) { return -1, unix.EMFILE })
	check(fd == -1 && err == unix.EMFILE && closed() == 3, "failed", fd, err, closed())

	// Another thread closes the files at this moment.
	var before Inode
	fd, err = New(func() (int, error) {
		unix.Close(1)
		low, err := unix.MemfdCreate("descriptor", unix.MFD_CLOEXEC)
		before, _ = InodeOf(low)
		check(low == 1, "low", low)
		return low, err
	})
	after, _ := InodeOf(fd)
	check(before == after, "moved", before, after)
	isAbove(fd, err, "New, lifted")
	release := Occupy()
	check(unix.Dup3(number, 2, unix.O_CLOEXEC) == nil, "dup3")
	release()
	check(closed() == 2, "a file of the program's own", closed())
	fmt.Fprintln(out, "ended")
}

// TestNames: the names in a directory, also if they take several reads, and none of what is not one.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 300 {
		name := fmt.Sprintf("%0100d", i)
		require.NoError(t, os.WriteFile(dir+"/"+name, nil, 0o600))
		want = append(want, name)
	}
	before := testenv.Descriptors()
	names := func(path string) []string {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		return Names(fd)
	}
	require.ElementsMatch(t, want, names(dir))
	require.Empty(t, names(dir+"/"+want[0]))
	require.Equal(t, before, testenv.Descriptors())
}
