//go:build linux

package region

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/go-stapsdt/stapsdt/internal/descriptor"
	"github.com/go-stapsdt/stapsdt/internal/image"

	"golang.org/x/sys/unix"
)

// mfdExec is MFD_EXEC, of Linux 6.3: the memory may be mapped executable, which a system can
// forbid by default (sysctl vm.memfd_noexec).
const mfdExec = 0x10

// mfdNoExec is MFD_NOEXEC_SEAL, of Linux 6.3: the memory can never be mapped executable.
const mfdNoExec = 0x8

// maxMemfdName is the length of the longest name that the kernel accepts.
const maxMemfdName = 249

// memfd is sealed memory that is kept open. A program may close descriptors that it did not
// open (a daemon by closefrom, or by closing one twice), and another file may then get the
// number. So the descriptor's file is compared before the descriptor is used or closed.
type memfd struct {
	fd   int
	file descriptor.Inode
}

// there reports whether the descriptor still refers to the memory.
func (m *memfd) there() bool {
	file, err := descriptor.InodeOf(m.fd)
	return err == nil && file == m.file
}

// close closes the descriptor unless it refers to another file by now.
func (m *memfd) close() {
	if file, err := descriptor.InodeOf(m.fd); err != unix.EBADF && (err != nil || file == m.file) {
		unix.Close(m.fd)
	}
}

// errPrinted is returned if the program wrote something else to new memory.
var errPrinted = errors.New("the program keeps printing to the new descriptor")

// newMemfd creates memory that holds content.
func newMemfd(name string, content []byte) (*memfd, error) {
	for range attempts {
		m, err := tryMemfd(name, content)
		if err != errPrinted {
			return m, err
		}
	}
	return nil, fmt.Errorf("memfd: %w", errPrinted)
}

// tryMemfd fails with errPrinted if another thread printed to the descriptor, which can happen
// while the program closes its standard files.
func tryMemfd(name string, content []byte) (*memfd, error) {
	fd, err := createMemfd(trim(name, maxMemfdName), mfdExec)
	if err == errPrinted {
		return nil, err
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	m := &memfd{fd: fd}
	err = write(fd, content)
	if err == nil {
		const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err == nil {
		err = m.check(content)
	}
	if err != nil {
		unix.Close(fd)
		if err != errPrinted {
			err = fmt.Errorf("memfd: %w", err)
		}
		return nil, err
	}
	return m, nil
}

// CreateMemory creates empty memory that is not executable, and can be sealed.
func CreateMemory(name string) (fd int, err error) {
	for range attempts {
		if fd, err = createMemfd(name, mfdNoExec); err != errPrinted {
			break
		}
	}
	return fd, err
}

// createMemfd creates empty memory. Kernels that do not know the flag exec ignore it.
func createMemfd(name string, exec int) (int, error) {
	fd, err := descriptor.New(func() (int, error) {
		const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
		fd, err := unix.MemfdCreate(name, flags|exec)
		if err == unix.EINVAL {
			fd, err = unix.MemfdCreate(name, flags) // Linux before 6.3
		}
		return fd, err
	})
	if err != nil {
		return -1, err
	}
	// A daemon may have just put another file under the number: do not write to it.
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&(unix.F_SEAL_WRITE|unix.F_SEAL_SEAL) != 0 {
		unix.Close(fd)
		return -1, errPrinted
	}
	return fd, nil
}

// check compares sealed memory with its intended content, and records which file it is.
func (m *memfd) check(content []byte) error {
	var st unix.Stat_t
	if err := unix.Fstat(m.fd, &st); err != nil {
		return err
	}
	m.file = descriptor.Inode{Dev: uint64(st.Dev), Ino: st.Ino}
	same, err := holds(m.fd, content)
	if err == nil && (!same || st.Size != int64(len(content))) {
		return errPrinted
	}
	return err
}

// placeMemfd puts an image into memory.
func placeMemfd(im *image.Image) (*Home, error) {
	m, err := newMemfd(im.Provider, im.Bytes)
	if err != nil {
		return nil, err
	}
	return &Home{process: process(), fd: m.fd, memory: m, dirfd: -1}, nil
}

// process returns the directory of /proc in which tracers find this process, or "". It takes
// the PID from the link /proc/self: if /proc belongs to another PID namespace, the PID
// that getpid returns belongs to another process there, or to none. (The link
// itself would lead a tracer to the tracer.)
func process() string {
	var number [16]byte
	if n, err := unix.Readlink("/proc/self", number[:]); err == nil {
		if pid := string(number[:n]); isNumber(pid) {
			return "/proc/" + pid
		}
	}
	var fs unix.Statfs_t
	if unix.Statfs("/proc", &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC {
		return "" // /proc belongs to a PID namespace in which this process is not
	}
	// There is no /proc here, but a tracer that shares the PID namespace has one.
	return "/proc/" + strconv.Itoa(os.Getpid())
}

// isNumber reports whether a text is a PID.
func isNumber(text string) bool {
	const most = len("2147483647")
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return text != "" && len(text) <= most
}
