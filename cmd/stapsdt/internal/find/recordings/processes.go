//go:build linux

package recordings

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"golang.org/x/sys/unix"
)

const (
	// maxMapped is the maximum number of files of a process that are opened to find recordings.
	maxMapped = 256
	// maxDescriptors is the maximum number of descriptors of a process among which a deleted file
	// is looked for, and maxPlaces the maximum number of places where it is opened.
	maxDescriptors, maxPlaces = 4096, 4
)

func isEnd(err error) bool { return errors.Is(err, io.EOF) }

// Of returns the files to which processes record, and those to which earlier processes have
// recorded, with the paths that the processes see. A process has its recording mapped, and may
// have the path in its environment. Files that several processes lead to are returned once.
func Of(pids []int) (all []Recording) {
	seen := map[fileID]bool{}
	add := func(pid int, some []Recording, mapped bool) {
		for _, r := range some {
			if seen[r.id] {
				continue
			}
			seen[r.id] = true
			r.PID = pid
			if mapped {
				r.Kept = false // whatever its head states
			}
			all = append(all, r)
		}
	}
	patterns := map[int][]string{}
	for _, pid := range pids {
		found, paths := mapped(pid)
		add(pid, found, true)
		variable := proc.Environment(pid)(recording.Variable)
		if path, _, err := recording.ParseVariable(variable); err == nil {
			paths = append(paths, path)
		}
		patterns[pid] = paths
	}
	for _, pid := range pids {
		for _, pattern := range patterns[pid] {
			some, _ := Beside(pid, pattern)
			add(pid, some, false)
		}
	}
	return all
}

// Beside returns the recordings to a path that a process sees, which are files of its user.
func Beside(pid int, pattern string) ([]Recording, error) {
	if !path.IsAbs(pattern) {
		directory, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", proc.Task(pid)))
		if err != nil {
			return nil, err
		}
		pattern = path.Join(directory, pattern)
	}
	user := AnyUser
	if status, err := proc.ReadStatus(pid); err == nil {
		if n, err := strconv.ParseUint(status.Word("Uid", 1), 10, 32); err == nil {
			user = uint32(n)
		}
	}
	return stall.Do(fmt.Sprintf("/proc/%d/root%s", pid, path.Dir(pattern)), func() ([]Recording, error) {
		from, err := root.Of(pid)
		if err != nil {
			return nil, err
		}
		defer from.Close()
		return In(from, path.Clean(pattern), user)
	}, nil)
}

// mapped returns the recordings that a process has mapped, and their paths.
func mapped(pid int) (all []Recording, paths []string) {
	_ = eachMapped(pid, func(r *Recording, _ *os.File, _ uint64) bool {
		all, paths = append(all, *r), append(paths, r.File)
		return false
	})
	return all, paths
}

// eachMapped calls yield with each recording that a process has mapped, the open file, and the key
// of its file system. The file is closed afterwards unless yield reports that it is kept, which
// ends the search. The error is a stall.Err if a mapping or a file was left out because its file
// system did not answer.
func eachMapped(
	pid int, yield func(r *Recording, f *os.File, device uint64) (keep bool),
) (stalled error) {
	mappings, _, err := proc.Mappings(pid)
	if err != nil {
		return onlyStall(err)
	}
	opened := 0
	for i := range mappings {
		m := &mappings[i]
		isData := !m.Executable && m.Offset == 0 && m.End-m.Start > recording.HeadBytes
		if !isData || strings.HasPrefix(m.Path, "/memfd:") || opened == maxMapped {
			continue
		}
		opened++
		one, err := stall.Do(m.Device, func() (*mappedFile, error) {
			return newMappedFile(pid, m)
		}, func(late *mappedFile) { late.Close() })
		if err == nil {
			if yield(&one.Recording, one.f, m.Device) {
				break
			}
			one.Close()
		}
		stalled = cmp.Or(stalled, onlyStall(err))
	}
	return stalled
}

// onlyStall returns an error if it is a stall.Err.
func onlyStall(err error) error {
	if errors.Is(err, stall.Err) {
		return err
	}
	return nil
}

// CheckMaker returns an error if a process cannot have made a file: it belongs neither to root, nor
// to root of the process's user namespace, nor to a user of the process. Where other users may
// write to a directory above a recording, as in a volume of Kubernetes, its path may lead to a file
// of theirs.
func CheckMaker(f *os.File, pid int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if owner == 0 {
		return nil
	}
	if root, ok := proc.RootOf(pid); ok && owner == root {
		return nil // as which a process of a container often begins
	}
	status, err := proc.ReadStatus(pid)
	if err != nil {
		return err
	}
	for i := range 4 { // real, effective, saved, and of the file system
		if status.Word("Uid", i) == strconv.FormatUint(uint64(owner), 10) {
			return nil
		}
	}
	return fmt.Errorf("%s: it belongs to user %d, but process %d does not run as that user: another program has made it", f.Name(), owner, pid)
}

// mappedFile is a recording that a process has mapped.
type mappedFile struct {
	Recording
	f *os.File
}

func (m *mappedFile) Close() { m.f.Close() }

// newMappedFile opens a file that a process has mapped, if it is a recording.
func newMappedFile(pid int, m *proc.Mapping) (*mappedFile, error) {
	f, err := openMapped(pid, m)
	if err != nil {
		return nil, err
	}
	r := &mappedFile{f: f}
	if err = CheckMaker(f, pid); err == nil {
		if _, ok := r.read(f); !ok {
			err = recording.ErrCorrupt
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if r.File = m.Path; f.Name() != m.Path {
		r.File, r.Deleted = strings.TrimSuffix(m.Path, proc.Deleted), f.Name()
	}
	return r, nil
}

// openMapped opens the file of a mapping by its path or, if that leads nowhere any longer, by
// another in /proc. The kernel marks only files that were deleted, not those of unmounted file
// systems.
func openMapped(pid int, m *proc.Mapping) (*os.File, error) {
	from, err := root.Of(pid)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	f, err := from.Open(m.Path)
	if !m.Writable || !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	return openDeleted(pid, m)
}

// openDeleted opens a deleted file by a descriptor of its process, which has its recording open and
// whose user may do so, or by the mapping, which needs rights.
func openDeleted(pid int, m *proc.Mapping) (*os.File, error) {
	process := fmt.Sprintf("/proc/%d", proc.Task(pid))
	places := []string{m.Link(pid)}
	if fds, err := os.Open(process + "/fd"); err == nil {
		names, _ := fds.Readdirnames(maxDescriptors)
		fds.Close()
		for _, name := range names {
			if path, _ := os.Readlink(process + "/fd/" + name); path == m.Path {
				places = slices.Insert(places, 0, process+"/fd/"+name)
			}
		}
	}
	var reason error
	for _, at := range places[:min(len(places), maxPlaces)] {
		fd, err := unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			reason = &os.PathError{Op: "open", Path: at, Err: err}
			continue
		}
		found := os.NewFile(uintptr(fd), at)
		f, err := root.Reopen(found, at)
		found.Close()
		if err == nil {
			return f, nil
		}
		reason = err
	}
	return nil, reason
}
