//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// walls are what a child can put around itself, in the namespaces that it is
// started in.
var walls = map[string]func() error{
	"memfd_noexec=1": func() error { return os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("1"), 0) },
	"memfd_noexec=2": func() error { return os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0) },
	"no /proc": func() error {
		return errors.Join(private(), unix.Mount("none", "/proc", "tmpfs", unix.MS_RDONLY, ""))
	},
	// Directories of the root, such as /tmp, may be file systems of their own.
	"all read-only": func() error {
		readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		return errors.Join(private(), unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, readOnly))
	},
}

// private lets mounts be this process's own.
func private() error { return unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }

// confinedChild lives behind walls, as far as it can, and says how far.
func confinedChild(args []string) {
	for _, wall := range args {
		must(walls[wall]())
	}
	try("file")
	try("memory", stapsdt.WithMemfd())
	fmt.Println("alive")
}

// try is life, where a load can fail.
func try(what string, opts ...stapsdt.Option) {
	p := stapsdt.NewProvider("confined", opts...)
	event := stapsdt.NewProbe2[string, int](p, "event")
	var e *stapsdt.Error
	if err := p.Load(); errors.As(err, &e) {
		fmt.Println(what, "error", e.Code)
	} else {
		must(err)
		must(p.Close())
		life(what, opts...)
	}
	event.Fire("text", 1)
	must(p.Close())
}

func TestNamespaces(t *testing.T) {
	testenv.NeedsRoot(t)
	for _, c := range []struct {
		walls        string
		file, memory string
	}{
		{"memfd_noexec=1", "/stapsdt/", "/proc/"},
		{"memfd_noexec=2", "/stapsdt/", "error tmpCreationError"},
		{"no /proc", "/stapsdt/", "/proc/"},
		{"all read-only", "/proc/", "/proc/"},
		{"all read-only,no /proc", "/proc/", "/proc/"},
		{"memfd_noexec=2,all read-only", "error tmpCreationError", "error tmpCreationError"},
	} {
		t.Run(c.walls, func(t *testing.T) {
			if strings.HasPrefix(c.walls, "memfd_noexec") {
				_, err := os.Stat("/proc/sys/vm/memfd_noexec")
				testenv.NeedsMachine(t, "vm.memfd_noexec (Linux 6.3)", err, os.ErrNotExist)
			}
			child := tracetest.Child(t, "confined", directory(t), tracetest.WithArgs(strings.Split(c.walls, ",")...), func(cmd *exec.Cmd) {
				cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
			})
			require.Contains(t, child.Expect("file ", testenv.Patience), c.file)
			require.Contains(t, child.Expect("memory ", testenv.Patience), c.memory)
			child.Expect("alive", testenv.Patience)
			require.NoError(t, child.Wait(testenv.Patience))
		})
	}
}

// TestUserNamespace: root in a namespace of its own, and nobody outside.
func TestUserNamespace(t *testing.T) {
	testenv.NeedsNamespaces(t, "user", unix.CLONE_NEWUSER)
	child := tracetest.Child(t, "life", directory(t), func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
	})
	require.Contains(t, child.Expect("file ", testenv.Patience), "/stapsdt/")
	require.Contains(t, child.Expect("memory ", testenv.Patience), "/proc/")
	require.NoError(t, child.Wait(testenv.Patience))
}
