//go:build linux

// Command jail runs a program as a container does whose image is empty but for that program:
//
//	jail DIRECTORY MOUNTS PROGRAM [ARG]...
//
// DIRECTORY becomes the root of a mount namespace of its own, where nothing is left of the
// old root. MOUNTS is "proc" or "proc,sys": what is mounted in it. PROGRAM is a path in it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // which has the namespace and calls exec
	if err := enter(os.Args[1], strings.Split(os.Args[2], ",")); err != nil {
		fmt.Fprintln(os.Stderr, "jail:", err)
		os.Exit(1)
	}
	err := unix.Exec(os.Args[3], os.Args[3:], os.Environ())
	fmt.Fprintln(os.Stderr, "jail:", err)
	os.Exit(1)
}

// enter makes a directory the root of a new mount namespace.
func enter(root string, mounts []string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	// The new root must be a mount.
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", root, err)
	}
	kinds := map[string]string{"proc": "proc", "sys": "sysfs"}
	for _, name := range mounts {
		target := filepath.Join(root, name)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
		if name == "sys" {
			flags |= unix.MS_RDONLY // as container runtimes mount it
		}
		if err := unix.Mount(kinds[name], target, kinds[name], flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	// This puts the old root on top of the new one, from where it is taken away.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	return unix.Chdir("/")
}
