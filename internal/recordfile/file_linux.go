package recordfile

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/region"

	"golang.org/x/sys/unix"
)

// File is the file of a recording, which this process has locked and mapped.
type File struct {
	*os.File
	Memory []byte
	Chunks uint64
	Path   string
	// Previous is what the recording of an earlier process is called now, and Removed the oldest of such
	// recordings, which had to go; both are empty if there is none.
	Previous, Removed string
}

// Keep is how many recordings of earlier processes are kept.
const Keep = 5

// Create makes the file of a recording, with all of its room. It is complete when Publish gives it
// its name: other processes never find a part of it.
func Create(path string, size int64) (*File, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := checkDirectory(dir); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	f := &File{Chunks: recorder.Chunks(size)}
	bytes := recorder.Size(f.Chunks)
	if err := checkRoom(dir, bytes); err != nil {
		return nil, err
	}
	if err := f.createBeside(path); err != nil {
		return nil, err
	}
	if err := f.mapRoom(bytes); err != nil {
		f.Remove()
		return nil, err
	}
	return f, nil
}

// Use makes a recording in a file that the caller has open, such as one of memory without a name. Close leaves it open
// for the caller.
func Use(fd int, size int64) (*File, error) {
	duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := &File{File: os.NewFile(uintptr(duplicate), fmt.Sprintf("/dev/fd/%d", fd)), Chunks: recorder.Chunks(size)}
	bytes := recorder.Size(f.Chunks)
	if err = checkRoom(f.File, bytes); err == nil {
		err = f.mapRoom(bytes)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// createBeside creates the file under a name of this process: PATH.PID or, where another recording has that, PATH.PID.2 and so on. It is another
// recording of this process, or that of a process with the same PID in a container that shares the directory.
func (f *File) createBeside(path string) (err error) {
	for n := 1; n <= maxBeside; n++ {
		f.Path = path + "." + strconv.Itoa(os.Getpid())
		if n > 1 {
			f.Path += "." + strconv.Itoa(n)
		}
		if f.File, err = createLocked(f.Path, path); !errors.Is(err, errLocked) {
			return err
		}
	}
	return err
}

// maxBeside is how many recordings there can be beside one.
const maxBeside = 1000

var errLocked = errors.New("another process has locked it")

// mapRoom allocates the file's room and maps it.
func (f *File) mapRoom(bytes int64) (err error) {
	if err := allocate(f.File, bytes); err != nil {
		return err
	}
	if f.Memory, err = unix.Mmap(int(f.Fd()), 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	// A child that is forked without exec has no part in the recording.
	_ = unix.Madvise(f.Memory, unix.MADV_DONTFORK)
	return nil
}

// Publish gives the file the path that was asked for, unless another process records there.
func (f *File) Publish(path string) (err error) {
	defer func() {
		if err == nil {
			f.Removed, err = tidy(path)
		}
	}()
	for range 100 {
		if err := rename(f.Path, path); err == nil {
			f.Path = path
			return nil
		} else if !errors.Is(err, os.ErrExist) {
			return err
		}
		moved, err := f.moveAway(path, path)
		if err != nil {
			return err
		}
		if !moved {
			return nil // another process records there, and this one beside it
		}
	}
	return fmt.Errorf("%s: other processes create it all the time", path)
}

// createLocked creates a file beside a recording and locks it. One of the same name is of an earlier process, which had
// the same number, and is moved away.
func createLocked(path, recording string) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if errors.Is(err, os.ErrExist) {
			if moved, err := new(File).moveAway(path, recording); err != nil {
				return nil, err
			} else if !moved {
				return nil, fmt.Errorf("%s: %w", path, errLocked)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		return f, nil
	}
	return nil, fmt.Errorf("%s: other processes create it all the time", path)
}

// moveAway renames a file that an earlier process has left: it becomes an earlier one of the recording, whose name it has or, if it was beside
// that, had wanted. It reports false if a process has locked the file, which then stays.
func (f *File) moveAway(path, recording string) (moved bool, err error) {
	old, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer old.Close()
	info, err := old.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s: it is no file", path)
	}
	if err := unix.Flock(int(old.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return false, nil
	} else if err != nil {
		return false, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	name, err := moveFile(path, recording)
	if err != nil || name == "" {
		return err == nil, err
	}
	if now, err := os.Stat(name); err == nil && !os.SameFile(info, now) {
		// Another process has moved it away meanwhile, and this is a recording that has just been made.
		return false, rename(name, path)
	}
	f.Previous = name
	return true, nil
}

// moveFile renames a file to that of a recording with the present time, and returns that, or "" if the file is
// gone.
func moveFile(path, recording string) (name string, err error) {
	for range 100 {
		name = recording + time.Now().UTC().Format(suffix)
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
	if err == unix.EINVAL || err == unix.ENOSYS { // the file system, or the kernel, cannot
		if err = os.Link(from, to); err == nil {
			return os.Remove(from)
		}
	}
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

// suffix is the format of what is added to the name of an earlier recording: the time at which
// another process found it.
const suffix = "-20060102T150405.000000000Z"

// tidy gives the recordings that ended processes have left beside a path the names of earlier ones, and removes the oldest of these, if there are
// more than Keep. It returns what it has removed. Files of other users do not count: they must not replace this user's evidence.
func tidy(path string) (removed string, err error) {
	names, beside, err := recordings(path)
	if err != nil {
		return "", err
	}
	for _, name := range beside {
		f := &File{}
		if moved, err := f.moveAway(name, path); err == nil && moved && f.Previous != "" {
			names = append(names, filepath.Base(f.Previous))
		}
	}
	slices.Sort(names) // the times are of one length
	var all []string
	for len(names) > Keep {
		oldest := filepath.Join(filepath.Dir(path), names[0])
		if err := os.Remove(oldest); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		all, names = append(all, oldest), names[1:]
	}
	return strings.Join(all, ", "), nil
}

// recordings returns the names of the earlier recordings of a path, and the paths of those beside it that were not written to lately. All
// are files of this user.
func recordings(path string) (earlier, beside []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(path))
		_, notTime := time.Parse(suffix, rest)
		if !ok || !e.Type().IsRegular() || notTime != nil && !numbered(rest) {
			continue
		}
		info, err := e.Info()
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			continue
		}
		if notTime == nil {
			earlier = append(earlier, e.Name())
		} else if time.Since(info.ModTime()) > besideAge {
			beside = append(beside, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return earlier, beside, nil
}

// besideAge is how old a file beside a recording is at least that is not in use: one that has just been made is not yet locked.
const besideAge = time.Minute

// numbered reports whether the name of a file beside a recording has this in addition: .PID or .PID.N.
func numbered(rest string) bool {
	parts := strings.Split(rest, ".")
	if len(parts) != 2 && len(parts) != 3 || parts[0] != "" {
		return false
	}
	return !slices.ContainsFunc(parts[1:], func(part string) bool {
		_, err := strconv.ParseUint(part, 10, 32)
		return err != nil
	})
}

// checkDirectory refuses a directory in which another user could replace the file.
func checkDirectory(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("it belongs to user %d, who could replace a recording", st.Uid)
	}
	if st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return errors.New("other users may write to it, and could replace a recording")
	}
	return nil
}

// The file systems that copy what is written to another place, so that a block that was allocated
// once does not promise that there will be room.
const (
	btrfs    = 0x9123683e
	zfs      = 0x2fc12fc1
	bcachefs = 0xca451a4e
	tmpfs    = 0x01021994
)

// checkRoom refuses a file system on which allocated room is no promise, and sizes for which asking
// would be fatal.
func checkRoom(dir *os.File, size int64) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	switch number := uint32(fs.Type); {
	case region.IsNetwork(&fs):
		return fmt.Errorf("%s: it is on a network or FUSE file system (type %#x), whose server could stop the program", dir.Name(), number)
	case number == btrfs || number == zfs || number == bcachefs:
		return fmt.Errorf("%s: its file system (type %#x) writes to another place each time, and cannot promise room", dir.Name(), number)
	case number == tmpfs:
		if room, path := MemoryRoom(); size > room {
			return fmt.Errorf("%s: a recording of %d bytes is memory of the program, and %s leaves %d", dir.Name(), size, path, max(room, 0))
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if uint64(size) > limit.Cur { // the kernel would send SIGXFSZ
		return fmt.Errorf("a recording of %d bytes is larger than the limit of files (RLIMIT_FSIZE), %d: %w", size, limit.Cur, unix.EFBIG)
	}
	return nil
}

// allocate reserves all the room of the file, so that no write to its mapping needs more.
func allocate(f *os.File, size int64) error {
	for {
		switch err := unix.Fallocate(int(f.Fd()), 0, 0, size); err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return fmt.Errorf("%s: its file system cannot promise room for it: %w", f.Name(), err)
		default:
			return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}

// Close unmaps the recording, in which no fire is, and unlocks the file.
func (f *File) Close() error {
	var err error
	if f.Memory != nil {
		err = os.NewSyscallError("munmap", unix.Munmap(f.Memory))
		f.Memory = nil
	}
	return errors.Join(err, f.File.Close())
}

// Remove removes what could not be published.
func (f *File) Remove() {
	_ = os.Remove(f.Path)
	_ = f.Close()
}

// Describe sets what the head says of this process.
func Describe(h *recording.Head) {
	h.Executable, _ = os.Readlink("/proc/self/exe")
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		h.Boot = bootID(string(b))
	}
	if b, err := os.ReadFile("/proc/self/stat"); err == nil {
		h.Start = startTime(string(b))
	}
}

// bootID decodes an id such as 6c1f1a2e-…, 32 hexadecimal digits.
func bootID(text string) (id [16]byte) {
	digits := strings.ReplaceAll(strings.TrimSpace(text), "-", "")
	if b, err := hex.DecodeString(digits); err == nil {
		copy(id[:], b)
	}
	return id
}

// startTime returns when a process was started, in ticks since the boot, from its
// /proc/PID/stat. The name in it may contain spaces and parentheses.
func startTime(stat string) uint64 {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	start, _ := strconv.ParseUint(fields[19], 10, 64)
	return start
}
