//go:build linux

package recordings

import (
	"bytes"
	"cmp"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"

	"golang.org/x/sys/unix"
)

const (
	// maxNames is the maximum number of names in a directory that are compared.
	maxNames = 16384
	// maxOpened is the maximum number of files in a directory that are opened, or of those that are
	// recordings if their names do not tell.
	maxOpened = 256
	// maxBytes is the size of the largest file of which the last event is looked for. No process
	// makes a larger one of itself, and a hostile one could let that take hours.
	maxBytes = 2 * recording.MaxBytes
)

// AnyUser selects files of all users.
const AnyUser = ^uint32(0)

// In returns the recordings below a root to a path, in which %p stands for any PID, those that
// began first first. Only files of the user are opened. It returns an error if the directory cannot
// be read.
func In(from root.Root, pattern string, user uint32) ([]Recording, error) {
	prefix, _, _ := strings.Cut(path.Base(pattern), "%p")
	return search(from, path.Dir(pattern), prefix, user, maxOpened, func(name, pid string) bool {
		return recordfile.IsName(name, path.Base(pattern), pid)
	})
}

// Within returns the recordings in a directory below a root, whatever their names are, as In does.
func Within(from root.Root, directory string, user uint32) ([]Recording, error) {
	is := func(string, string) bool { return true }
	return search(from, directory, "", user, maxNames, is)
}

// search returns the recordings in a directory below a root whose names begin with prefix, and
// which is reports for the PID of the recording. It opens at most the given number of files.
func search(
	from root.Root, directory, prefix string, user uint32, most int,
	is func(name, pid string) bool,
) ([]Recording, error) {
	dir, err := from.OpenDirectory(directory)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxNames)
	if len(names) == 0 && err != nil && !isEnd(err) {
		return nil, err
	}
	var all []Recording
	opened := 0
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) || opened == most || len(all) == maxOpened {
			continue
		}
		opened++
		if r, ok := lookAt(dir, name, user, is); ok {
			r.File = path.Join(directory, name)
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Recording) int {
		return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.File, b.File))
	})
	return all, nil
}

// lookAt looks at a file that may be a recording whose name is one of is.
func lookAt(
	dir *os.File, name string, user uint32, is func(name, pid string) bool,
) (r Recording, ok bool) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return r, false
	}
	found := os.NewFile(uintptr(fd), name)
	defer found.Close()
	info, err := found.Stat()
	if err != nil || user != AnyUser && info.Sys().(*syscall.Stat_t).Uid != user {
		return r, false
	}
	f, err := root.Reopen(found, name)
	if err != nil {
		return r, false
	}
	defer f.Close()
	pid, ok := r.read(f)
	if !ok || !is(name, strconv.FormatUint(uint64(pid), 10)) {
		return r, false
	}
	return r, true
}

// read reads what a file tells about itself, and reports whether it begins like a recording. Kept
// is set unless a process still writes to it.
func (r *Recording) read(f *os.File) (pid uint32, ok bool) {
	info, err := f.Stat()
	if err != nil {
		return 0, false
	}
	b := make([]byte, recording.HeadBytes)
	n, _ := f.ReadAt(b, 0)
	if b = b[:n]; !bytes.HasPrefix(b, []byte(recording.Magic)) {
		return 0, false
	}
	st := info.Sys().(*syscall.Stat_t)
	r.id, r.Size, r.Kept = fileID{st.Dev, st.Ino}, info.Size(), true
	head, err := recording.DecodeHead(b)
	if err != nil {
		return 0, true // its process has not begun, or another version has made it
	}
	r.PID, r.Began, r.Closed = int(head.PID), head.Reading.Realtime, head.Ended
	r.worth, r.executable = recordfile.Worth(b), head.Executable
	r.Kept = head.Ended || !recordfile.Written(f, head)
	if info.Size() <= maxBytes {
		r.Last, _ = recording.LastEvent(f, info.Size())
	}
	return head.PID, true
}

// IsKept reports whether a file is a recording, and whether no process writes to it.
func IsKept(f *os.File) (kept, ok bool) {
	var r Recording
	_, ok = r.read(f)
	return r.Kept, ok
}

// Latest returns the recording of the greatest worth of an earlier process, which is that of the
// latest crash if there is one. It returns nil if there is no recording.
func Latest(all []Recording) (latest *Recording) {
	for i := range all {
		r := &all[i]
		if r.Kept && r.Began != 0 && (latest == nil || r.worth > latest.worth) {
			latest = r
		}
	}
	return latest
}

// Newest returns the recording that tells most of the end of a program: that of the latest crash,
// or else the newest one that a process writes, or else the newest one that was closed. It returns
// nil if there is none.
func Newest(all []Recording) (newest *Recording) {
	for i := range all {
		if r := &all[i]; !r.Kept && (newest == nil || r.Began > newest.Began) {
			newest = r
		}
	}
	if latest := Latest(all); latest != nil && (newest == nil || !latest.Closed) {
		return latest
	}
	return newest
}
