//go:build linux

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"golang.org/x/sys/unix"
)

// openMapped opens the file of a mapping. /proc/PID/map_files leads to exactly this file, even
// if it is deleted or in memory, but requires root or CAP_CHECKPOINT_RESTORE. Without them,
// openMapped opens the path if it still leads to the same file.
func openMapped(pid int, m *proc.Mapping) (*os.File, error) {
	file, err := open(m.Link(pid))
	var leased *leasedError
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.As(err, &leased) {
		return file, err
	}
	name := strings.TrimSuffix(m.Path, proc.Deleted)
	op := fmt.Sprintf("opening %s of process %d", name, pid)
	if strings.HasPrefix(name, "/memfd:") {
		op = fmt.Sprintf("process %d has the image %s in memory, not in a directory, which STAPSDT_DIR can name: opening it", pid, name)
	}
	if stall.Passes(err) {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	for _, root := range []string{fmt.Sprintf("/proc/%d/root", proc.Task(pid)), ""} {
		file, openErr := open(root + m.Path)
		if errors.As(openErr, &leased) {
			return nil, openErr
		}
		if openErr != nil {
			continue
		}
		var stat unix.Stat_t
		// On file systems for which stat shows an anonymous device, maps may show another one.
		if unix.Fstat(int(file.Fd()), &stat) == nil && stat.Ino == m.Inode &&
			(stat.Dev == m.Device || unix.Major(stat.Dev) == 0) {
			return file, nil
		}
		file.Close()
	}
	needed := []rights.Capability{rights.Restore}
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", proc.Task(pid))); errors.Is(err, fs.ErrPermission) {
		needed = append(needed, rights.Ptrace)
	}
	var stat unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", pid), &stat); err == nil && int(stat.Uid) != os.Geteuid() {
		needed = append(needed, rights.Search)
	}
	return nil, rights.Wrap(op, err, needed...)
}

// OpenMapping opens the file of a mapping of a process, as a Finder does: even if it was
// deleted, is in memory, or is in another mount namespace. The error is a *rights.Error if
// rights are missing.
func OpenMapping(pid int, m proc.Mapping) (*Content, error) {
	return openContent(m.Device, func() (*os.File, error) { return openMapped(pid, &m) })
}
