package recordfile

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/go-stapsdt/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"

	"golang.org/x/sys/unix"
)

// Keep is the number of recordings of earlier processes that are kept.
const Keep = 5

// Create makes the file of a recording, with all of its space. It is complete when Publish gives it
// its name: other processes never find a part of it. If makes is true, the last directory of the
// path is made for this user alone if it is missing.
func Create(path string, size int64, makes bool) (*File, error) {
	if path == "" {
		return nil, errors.New("the path is empty")
	}
	dir, err := openDirectory(directoryOf(path), makes)
	if err != nil {
		return nil, err
	}
	f := &File{Chunks: recorder.Chunks(size), directory: dir}
	if err := f.create(path); err != nil {
		f.Remove()
		return nil, err
	}
	return f, nil
}

// create creates the file in its directory, and maps it.
func (f *File) create(path string) error {
	if earlier, err := f.directory.openOurs(path); err == nil {
		earlier.Close()
	} else if errors.Is(err, errOther) {
		return err
	}
	bytes := recorder.Size(f.Chunks)
	if err := checkRoom(f.directory.File, bytes); err != nil {
		return err
	}
	if err := f.createBeside(path); err != nil {
		return err
	}
	return f.mapRoom(bytes)
}

// Use makes a recording in a file that the caller has open, such as one of memory without a name.
// Close leaves it open for the caller.
func Use(fd int, size int64) (*File, error) {
	duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, unix.Stderr+1)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := &File{
		File:   os.NewFile(uintptr(duplicate), fmt.Sprintf("/dev/fd/%d", fd)),
		Chunks: recorder.Chunks(size),
	}
	bytes := recorder.Size(f.Chunks)
	// shows readers that the file is written; another process may have locked it
	_ = unix.Flock(duplicate, unix.LOCK_EX|unix.LOCK_NB)
	if err = checkLocal(duplicate, f.Name()); err == nil {
		err = checkRoom(f.File, bytes)
	}
	if err == nil {
		err = f.mapRoom(bytes)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// createBeside creates the file under a name of this process: PATH.PID or, if that is taken,
// PATH.PID.2 and so on. Another recording of this process may have the name, one of an earlier
// process with the same PID or of one in a container that shares the directory, or a file of a user
// who takes all names on purpose: therefore the later numbers are random.
func (f *File) createBeside(path string) (err error) {
	for n := range uint32(maxBeside) {
		f.Path = path + "." + strconv.Itoa(os.Getpid())
		switch {
		case n >= maxBeside/2:
			f.Path += "." + strconv.Itoa(int(rand.Uint32()))
		case n > 0:
			f.Path += "." + strconv.Itoa(int(n+1))
		}
		if f.File, err = f.directory.createLocked(f.Path); !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return err
}

const (
	// maxBeside is the maximum number of names beside a recording that are tried.
	maxBeside = 1000
	// maxRenames is the maximum number of attempts with a path that other processes take and leave
	// meanwhile.
	maxRenames = 100
)

// createLocked creates a file beside a recording, locks it, and then makes it known as a recording:
// a recording that is not locked is therefore one whose process has ended.
//
// The sticky bit protects it from programs that clean directories by age (systemd's tmpfiles.d(5)):
// writes to a mapping rarely change the time of its file, so that it looks old while it is written.
// Recordings of earlier processes keep the bit, because [Keep] of them are promised.
func (d *directory) createLocked(path string) (f *os.File, err error) {
	f, err = d.openFile(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600|unix.S_ISVTX)
	if err != nil {
		return nil, err
	}
	err = os.NewSyscallError("flock", unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	if err == nil {
		_, err = f.WriteAt(beginning(), 0)
	}
	if err == nil {
		err = f.Sync() // so that it is recognized as ours even after a power failure
	}
	if err != nil {
		_ = d.unlink(path)
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

// mapRoom allocates the file's space and maps it.
func (f *File) mapRoom(bytes int64) (err error) {
	if err := allocate(f.File, bytes); err != nil {
		return err
	}
	const both = unix.PROT_READ | unix.PROT_WRITE
	if f.Memory, err = unix.Mmap(int(f.Fd()), 0, int(bytes), both, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	// A child that is forked without exec does not inherit the mapping.
	_ = unix.Madvise(f.Memory, unix.MADV_DONTFORK)
	mapped.Store(f, nil)
	return nil
}

// mapped are the files that are recorded to. A program need not keep its recorder, and the garbage
// collector would close the file: in an overlay, as a container has, the mapping does not keep the
// lock.
var mapped sync.Map

// Publish gives the file the requested path, unless another process records there, or a file of
// another user is there. The path of each process follows from the pattern, in which %p is the PID.
func (f *File) Publish(path, pattern string) error {
	for range maxRenames {
		err := f.directory.rename(f.Path, path)
		if err == nil {
			f.Path = path
		} else if !errors.Is(err, os.ErrExist) {
			return err
		} else if previous, err := f.directory.moveAway(path); err == nil {
			f.Previous = cmp.Or(previous, f.Previous)
			continue
		} else if !errors.Is(err, errTaken) {
			return err
		} // otherwise this file stays beside it
		removed, beside := f.directory.tidy(pattern, f.Path)
		if f.Removed = removed; beside || f.Path != path {
			_, _ = f.WriteAt([]byte{1}, recording.OffBeside)
		}
		f.closeDirectory()
		return nil
	}
	return fmt.Errorf("%s: other processes keep creating it", path)
}

// Close unmaps the recording and unlocks the file. No fire may write to the recording
// after that.
func (f *File) Close() error {
	var err error
	mapped.Delete(f)
	if f.Memory != nil {
		err = os.NewSyscallError("munmap", unix.Munmap(f.Memory))
		f.Memory = nil
	}
	f.closeDirectory()
	return errors.Join(err, f.File.Close())
}

// Remove closes a file that was not published, and removes it if it was created.
func (f *File) Remove() {
	if f.File != nil {
		_ = f.directory.unlink(f.Path)
	}
	_ = f.Close()
}

func (f *File) closeDirectory() {
	if f.directory != nil {
		f.directory.Close()
		f.directory = nil
	}
}

// Describe sets the fields of the head that describe this process.
func Describe(h *recording.Head) {
	h.Executable, _ = os.Readlink("/proc/self/exe")
	h.Boot, h.Start = lifeOf("self")
}

// Runs reports whether the process that a head names is known to run. If not, it has ended, or has
// another PID here.
func Runs(h *recording.Head) bool {
	process := strconv.FormatUint(uint64(h.PID), 10)
	boot, start := lifeOf(process)
	return start != 0 && proc.StartSeen(process, start) == h.Start && boot == h.Boot
}

// Written reports whether a process may write to a recording: its writer has locked it, or has
// closed all descriptors, as daemons do. Trying the lock could obstruct a process that begins to
// write, so it is tried last.
func Written(f *os.File, h *recording.Head) bool {
	if Runs(h) || unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return true
	}
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	return false
}

// lifeOf returns the ID of the boot, and the start time of a process.
func lifeOf(process string) (boot [16]byte, start uint64) {
	boot = bootID(string(proc.Read("/proc/sys/kernel/random/boot_id", 64)))
	return boot, startTime(string(proc.Read("/proc/"+process+"/stat", 1024)))
}

// bootID decodes an ID such as 6c1f1a2e-…, 32 hexadecimal digits.
func bootID(text string) (id [16]byte) {
	digits := strings.ReplaceAll(strings.TrimSpace(text), "-", "")
	if b, err := hex.DecodeString(digits); err == nil {
		copy(id[:], b)
	}
	return id
}

// startTime returns the start time of a process, in ticks since the boot, from its
// /proc/PID/stat. The name in it may contain spaces and parentheses.
func startTime(stat string) uint64 {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	start, _ := strconv.ParseUint(fields[19], 10, 64)
	return start
}
