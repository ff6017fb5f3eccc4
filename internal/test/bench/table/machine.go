//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/site"

	"golang.org/x/sys/unix"
)

var modelLine = regexp.MustCompile(`(?m)^model name\s*:\s*(.*)$`)

// describeMachine returns a sentence that says what the figures are of, and the name of its
// processors.
func describeMachine() (machine, processors string, err error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "", "", err
	}
	bpftrace, err := exec.Command("bpftrace", "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("bpftrace --version: %w", err)
	}
	gcc, err := exec.Command("gcc", "-dumpfullversion").Output()
	if err != nil {
		return "", "", fmt.Errorf("gcc -dumpfullversion: %w", err)
	}
	cpu := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := modelLine.FindSubmatch(info); m != nil {
			cpu = string(m[1])
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(*images, &fs); err != nil {
		return "", "", fmt.Errorf("%s: %w", *images, err)
	}
	place := "on a disk"
	if fs.Type == unix.TMPFS_MAGIC {
		place = "on tmpfs"
	}
	// What follows the version is the builder's.
	kernel, _, _ := strings.Cut(unix.ByteSliceToString(uts.Release[:]), "-")
	return fmt.Sprintf("Linux %s (sites: %s), %d × %s, %s, gcc %s, %s, images %s", kernel, site.Chosen().Name, runtime.NumCPU(), cpu,
		strings.Replace(runtime.Version(), "go", "Go ", 1), strings.TrimSpace(string(gcc)), strings.TrimSpace(string(bpftrace)), place), cpu, nil
}
