package recordfile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/region"

	"golang.org/x/sys/unix"
)

// maxRenames is the maximum number of attempts with a name that other processes take and leave meanwhile.
const maxRenames = 100

var (
	// errTaken means that a process has locked a file, or that it belongs to another user.
	errTaken = errors.New("it is in use by another process, or belongs to another user")
	// errOther means that a file of this user is not a recording.
	errOther = errors.New("the file there is not a recording")
)

// openOurs opens a recording of this user's processes. Files that are renamed, counted or removed are identified by their owner and
// their first bytes. Files of others are not even opened.
func openOurs(path string) (f *os.File, info os.FileInfo, err error) {
	if info, err = os.Lstat(path); err != nil {
		return nil, nil, err
	}
	if !isMine(info.Sys().(*syscall.Stat_t).Uid) {
		return nil, nil, errTaken
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errOther
	}
	if f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	var magic [len(recording.Magic)]byte
	now, err := f.Stat()
	switch {
	case err != nil:
	case !os.SameFile(info, now):
		err = errTaken // a process works on the same files
	default:
		if _, err = f.ReadAt(magic[:], 0); err == io.EOF || err == nil && string(magic[:]) != recording.Magic {
			err = errOther
		}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// isMine reports whether a file is this user's. In a user namespace, all users without a UID there have the same number.
func isMine(uid uint32) bool {
	return uid == uint32(os.Geteuid()) && (uid != region.OverflowUser || region.AllUsersMapped())
}

// createLocked creates a file beside a recording, locks it, and then makes it known as a recording: a recording that is not locked is therefore one
// whose process has ended. A file of the same name is of an earlier process with the same PID, and is moved away.
func createLocked(path, beside string) (f *os.File, err error) {
	for range maxRenames {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err == nil {
			break
		} else if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		if _, err := moveAway(path, beside); errors.Is(err, errTaken) || errors.Is(err, errOther) {
			return nil, errTaken
		} else if err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: other processes keep creating it", path)
	}
	err = os.NewSyscallError("flock", unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	if err == nil {
		_, err = f.WriteAt(beginning(), 0)
	}
	if err == nil {
		err = f.Sync() // so that it is recognized as ours even after a power failure
	}
	if err != nil {
		os.Remove(path)
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// beginning returns the bytes with which a file begins until its head is written.
func beginning() []byte {
	b := make([]byte, recording.OffPID+4)
	copy(b, recording.Magic)
	binary.LittleEndian.PutUint32(b[recording.OffPID:], uint32(os.Getpid()))
	return b
}

// moveAway renames a recording that an earlier process has left. The new name is the path of, with the present time. It returns the new name, or ""
// if there is no file. A file that is not ours stays.
func moveAway(path, of string) (name string, err error) {
	old, info, err := openOurs(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer old.Close()
	if pid, beside := processOf(strings.TrimPrefix(path, of)); beside && !isOf(old, pid) {
		return "", errTaken
	}
	if err := unix.Flock(int(old.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return "", errTaken
	} else if err != nil {
		return "", &os.PathError{Op: "flock", Path: path, Err: err}
	}
	if name, err = moveFile(path, of); err != nil || name == "" {
		return "", err
	}
	if now, err := os.Lstat(name); err == nil && !os.SameFile(info, now) {
		// Another process has moved the recording away meanwhile, and this is a new one.
		if err := rename(name, path); err != nil {
			return "", err
		}
		return "", errTaken
	}
	return name, nil
}

// moveFile renames a file to the name of a recording with the present time, and returns the new name, or "" if
// the file is gone.
func moveFile(path, of string) (name string, err error) {
	for range maxRenames {
		name = of + "-" + kind.FileTime(time.Now())
		switch err = rename(path, name); {
		case errors.Is(err, os.ErrNotExist):
			return "", nil
		case !errors.Is(err, os.ErrExist):
			return name, err
		}
	}
	return "", err
}

// rename renames a file to a name that no other file has.
func rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS { // the file system or the kernel does not support the flag
		if err = os.Link(from, to); err == nil {
			return os.Remove(from)
		}
	}
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

// IsTimeSuffix reports whether the name of an earlier recording may end so: with the time at which
// another process found it, as in -20060102T150405.000000000Z. With package time, which could parse
// it, a program would be 80 KB larger.
func IsTimeSuffix(rest string) bool {
	const format = "-00000000T000000.000000000Z"
	if len(rest) != len(format) {
		return false
	}
	for i := range len(format) {
		isDigit := '0' <= rest[i] && rest[i] <= '9'
		if format[i] != rest[i] && !(format[i] == '0' && isDigit) {
			return false
		}
	}
	return true
}

// earlier is the recording of a process that has ended.
type earlier struct {
	path  string
	rank  int // the lowest is removed first
	began uint64
}

// tidy removes recordings to a path whose processes have ended, until Keep are left: first those
// that their process has ended, then those of processes that began beside another, such as its
// children, and then those that began first. It returns the removed files. It also reports whether
// another process records to the path that did not begin beside a third one. A file that cannot be
// removed stays.
func tidy(path, pattern, own string) (removed string, beside bool) {
	path, pattern = filepath.Clean(path), filepath.Clean(pattern)
	dir := filepath.Dir(path)
	prefix, _, _ := strings.Cut(filepath.Base(pattern), "%p")
	entries, _ := os.ReadDir(dir)
	var all []earlier
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		name := filepath.Join(dir, e.Name())
		if !ok || rest == "" || !strings.Contains("-.0123456789", rest[:1]) {
			continue // it is not opened
		}
		if name == path || name == filepath.Clean(own) {
			continue
		}
		one, ended, ok := lookAt(name, pattern)
		if ok && ended {
			all = append(all, one)
		} else if ok && one.rank == rankKilled {
			beside = true
		}
	}
	slices.SortFunc(all, func(a, b earlier) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.began, b.began))
	})
	var names []string
	for i, one := range all {
		if (one.rank == rankIncomplete || i < len(all)-Keep) && remove(one.path) {
			names = append(names, one.path)
		}
	}
	return strings.Join(names, ", "), beside
}

// The ranks of recordings. A process that was killed has not ended its own.
const (
	rankIncomplete = iota
	rankEnded
	rankBeside
	rankKilled
)

// lookAt looks at a file that may be a recording to a path, and reports whether its process has
// ended.
func lookAt(name, pattern string) (one earlier, ended, ok bool) {
	f, _, err := openOurs(name)
	if err != nil {
		return one, false, false
	}
	defer f.Close()
	var head [recording.OffBeside + 4]byte
	_, _ = f.ReadAt(head[:], 0)
	le := binary.LittleEndian
	pid := strconv.FormatUint(uint64(le.Uint32(head[recording.OffPID:])), 10)
	if !IsName(name, pattern, pid) {
		return one, false, false
	}
	one = earlier{name, rankKilled, le.Uint64(head[recording.OffBegin+16:])}
	switch {
	case le.Uint64(head[recording.OffChunks:]) == 0:
		one.rank = rankIncomplete
	case le.Uint32(head[recording.OffEnded:]) != 0:
		one.rank = rankEnded
	case le.Uint32(head[recording.OffBeside:]) != 0:
		one.rank = rankBeside
	}
	// Several processes may look at once, but none while another moves the file away.
	return one, unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil, true
}

// remove removes a recording that no process writes.
func remove(name string) bool {
	f, info, err := openOurs(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return false
	}
	now, err := os.Lstat(name)
	return err == nil && os.SameFile(info, now) && os.Remove(name) == nil
}

// IsName reports whether a recording of a process to the path that follows from a pattern can have
// a name.
func IsName(name, pattern, pid string) bool {
	rest, ok := strings.CutPrefix(name, strings.ReplaceAll(pattern, "%p", pid))
	return ok && (rest == "" || isSuffix(rest, pid))
}

// isSuffix reports whether the name of a process's recording may end so: with -TIME, .PID or
// .PID.N.
func isSuffix(rest, pid string) bool {
	if IsTimeSuffix(rest) {
		return true
	}
	of, beside := processOf(rest)
	return beside && strconv.FormatUint(uint64(of), 10) == pid
}

// processOf returns the process in the name of a file beside a recording. rest is the end of the name: .PID or .PID.N.
func processOf(rest string) (pid uint32, ok bool) {
	parts := strings.Split(rest, ".")
	if len(parts) != 2 && len(parts) != 3 || parts[0] != "" {
		return 0, false
	}
	var numbers [2]uint64
	for i, part := range parts[1:] {
		var err error
		if numbers[i], err = strconv.ParseUint(part, 10, 32); err != nil {
			return 0, false
		}
	}
	return uint32(numbers[0]), true
}

// isOf reports whether a recording is of a process, or its head was not written yet. Another program's recording can have a name
// that looks like a name beside this recording.
func isOf(f *os.File, pid uint32) bool {
	var b [4]byte
	if _, err := f.ReadAt(b[:], recording.OffPID); err != nil {
		return err == io.EOF
	}
	of := binary.LittleEndian.Uint32(b[:])
	return of == 0 || of == pid
}
