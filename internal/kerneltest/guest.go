//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mountAll mounts what a root of empty folders lacks.
func mountAll() error {
	for _, m := range []struct{ source, target, kind, data string }{
		{"proc", "/proc", "proc", ""},
		{"sysfs", "/sys", "sysfs", ""},
		{"devtmpfs", "/dev", "devtmpfs", ""},
		{"tmpfs", "/tmp", "tmpfs", "mode=1777"},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.kind, 0, m.data); err != nil && err != unix.EBUSY {
			return fmt.Errorf("%s: %w", m.target, err)
		}
	}
	// The kernel may lack these; then what needs them is skipped, or fails
	// and says so.
	unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, "")
	unix.Mount("debugfs", "/sys/kernel/debug", "debugfs", 0, "")
	unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "")
	os.Symlink("/proc/self/fd", "/dev/fd")

	for name, value := range map[string]string{
		"PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": "/tmp",
		"CI":   "true", // what is missing is a failure, not a skip
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// powerOff ends the machine.
func powerOff() {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("power off:", err)
	}
}
