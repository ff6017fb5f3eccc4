//go:build linux

package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"golang.org/x/sys/unix"
)

// ErrNoProcess means that there is no process with that PID, or that it has exited.
var ErrNoProcess = errors.New("no such process")

// Deleted is the suffix that the kernel adds to the path of a deleted file.
const Deleted = " (deleted)"

// File is a file as it appears in /proc/PID/maps. The device and the inode can differ from those of
// stat, for example on btrfs and overlayfs.
type File struct {
	Device, Inode uint64
	// Path is the path as the kernel shows it: in the mount namespace of the process, with the
	// suffix Deleted if the file was deleted. For memory without a file, it is a name such as
	// [vdso], or "".
	Path string
}

// Mapping is a part of the memory of a process.
type Mapping struct {
	Start, End, Offset uint64
	Executable         bool
	Writable           bool
	File
}

// IsFile reports whether the mapping is a part of a file. The kernel names anonymous huge pages
// like one.
func (m *Mapping) IsFile() bool {
	return m.Inode != 0 && strings.HasPrefix(m.Path, "/") && !strings.HasPrefix(m.Path, "/anon_hugepage")
}

// Link returns the path in /proc of a process that leads to exactly the file of a mapping, even if
// it is deleted or in memory. Opening it needs rights.
func (m *Mapping) Link(pid int) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", Task(pid), m.Start, m.End)
}

// isCopy reports whether the mapping is executable memory to which a program can have copied code.
func (m *Mapping) isCopy() bool {
	named := strings.HasPrefix(m.Path, "[") && !strings.HasPrefix(m.Path, "[anon") // such as [vdso]
	return m.Executable && !m.IsFile() && !named
}

// Has reports whether the mapping has an offset of its file.
func (m *Mapping) Has(offset uint64) bool {
	return offset >= m.Offset && offset-m.Offset < m.End-m.Start
}

// Parked reports whether the mapping is the rest of an image that the process has unloaded.
// It has no probes.
func (m *Mapping) Parked() bool { return strings.HasPrefix(m.Path, "/memfd:stapsdt-parked") }

// isRing reports whether the mapping is memory for the events of a watcher.
func (m *Mapping) isRing() bool { return strings.HasPrefix(m.Path, "/memfd:stapsdt-watch-") }

// Mappings returns the mappings of files in a process, and reports whether there are more. The
// error is ErrNoProcess if the process has exited.
func Mappings(pid int) (all []Mapping, more bool, err error) {
	return mappings(pid, (*Mapping).IsFile)
}

// FilesAndCopies returns the results of Mappings, and the executable memory to which a program can
// have copied code.
func FilesAndCopies(pid int) (all []Mapping, more bool, err error) {
	return mappings(pid, func(m *Mapping) bool { return m.IsFile() || m.isCopy() })
}

// CodeMappings returns the executable mappings of a process, in the order of the addresses,
// whether they are of files or not. The errors are the same as for Mappings.
func CodeMappings(pid int) ([]Mapping, error) {
	all, _, err := mappings(pid, func(m *Mapping) bool { return m.Executable })
	return all, err
}

// RingSize returns the size of the memory that a process has allocated for the events of its
// watchers, as far as it is known.
func RingSize(pid int) (size int64) {
	all, _, _ := mappings(pid, (*Mapping).isRing)
	for i := range all {
		size += int64(all[i].End - all[i].Start)
	}
	return size
}

// maxPaths is the maximum size in bytes of all paths of a process's mappings. A process can have
// 65,530 mappings with paths of 4 KB each. The paths of ordinary programs have a few kilobytes
// together.
const maxPaths = 4 << 20

// mappings returns the wanted mappings, and reports whether there are more.
func mappings(pid int, wanted func(*Mapping) bool) (all []Mapping, more bool, err error) {
	all, more, err = taskMappings(pid, wanted)
	if len(all) == 0 && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, stall.Err) {
		if task := Task(pid); task != pid {
			return taskMappings(task, wanted)
		}
	}
	return all, more, err
}

// mapsKey returns the key, for package stall, of a process's memory map. The maps of the
// machine's root have no owner in common, so none of them hides the others.
func mapsKey(pid int) any {
	type maps struct{ of any }
	owner := OwnerOf(pid)
	if own, ok := ownMounts(); ok && owner == (Owner{Namespace: own}) {
		return maps{pid}
	}
	return stall.Of{Owner: maps{owner}, System: maps{pid}}
}

// taskMappings reads the memory map in a goroutine that can be abandoned: the kernel makes it wait
// while the process reads a page of a file system that does not answer.
func taskMappings(pid int, wanted func(*Mapping) bool) (all []Mapping, more bool, err error) {
	type result struct {
		all  []Mapping
		more bool
	}
	key := func() any { return mapsKey(pid) }
	r, err := stall.Do(stall.Late(key), func() (r result, err error) {
		r.all, r.more, err = readMappings(pid, wanted)
		return r, err
	}, nil)
	if errors.Is(err, stall.Err) {
		err = Wrap(pid, err)
	}
	return r.all, r.more, err
}

func readMappings(pid int, wanted func(*Mapping) bool) (all []Mapping, more bool, err error) {
	// This takes the lock of the memory map, for which a signal ends the wait. New kernels show the
	// map without it, but take it to look up a name in map_files: a process that looks up a name
	// that another process is looking up waits for that process, and no signal ends the wait.
	if command, err := open(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		_, _ = command.Read(make([]byte, 1))
		command.Close()
	}
	f, err := open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, false, Wrap(pid, err)
	}
	defer f.Close()
	left := maxPaths
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 8<<10), 64<<10)
	for lines.Scan() {
		if m, ok := parseMapping(lines.Bytes()); ok && wanted(&m) {
			if left -= len(m.Path); left < 0 {
				return all, true, nil
			}
			all = append(all, m)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, false, Wrap(pid, err)
	}
	return all, false, nil
}

// Wrap adds the PID to an error from reading a file of a process. The error is ErrNoProcess if the
// process has exited.
func Wrap(pid int, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// parseMapping reads a line of /proc/PID/maps. It reports false if the line is not valid.
//
//	7f1c2a000000-7f1c2a001000 r-xp 00001000 fe:00 12345      /usr/lib/libc.so.6
func parseMapping(line []byte) (m Mapping, ok bool) {
	var parts [5][]byte
	for i := range parts {
		line = bytes.TrimLeft(line, " ")
		end := bytes.IndexByte(line, ' ')
		if end < 0 {
			end = len(line) // anonymous memory has no path
		}
		parts[i], line = line[:end], line[end:]
	}
	path := string(bytes.TrimLeft(line, " "))
	start, end, ok1 := bytes.Cut(parts[0], []byte("-"))
	major, minor, ok2 := bytes.Cut(parts[3], []byte(":"))
	if !ok1 || !ok2 || len(parts[1]) < 4 {
		return m, false
	}
	var numbers [5]uint64
	for i, text := range [][]byte{start, end, parts[2], major, minor} {
		n, err := strconv.ParseUint(string(text), 16, 64)
		if err != nil {
			return m, false
		}
		numbers[i] = n
	}
	inode, err := strconv.ParseUint(string(parts[4]), 10, 64)
	if err != nil {
		return m, false
	}
	return Mapping{
		Start: numbers[0], End: numbers[1], Offset: numbers[2],
		Executable: parts[1][2] == 'x', Writable: parts[1][1] == 'w',
		// The kernel writes a newline in a path as \012, and escapes nothing else.
		File: File{
			unix.Mkdev(uint32(numbers[3]), uint32(numbers[4])),
			inode,
			strings.ReplaceAll(path, `\012`, "\n"),
		},
	}, true
}

// Processes returns the PIDs of all processes, in order.
func Processes() ([]int, error) {
	return numbers("/proc")
}

// numbers returns the numbers that are names in a directory, in order.
func numbers(directory string) (all []int, err error) {
	d, err := open(directory)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Parent returns the PID of the parent of a process, or 0.
func Parent(pid int) int {
	parent, _ := strconv.Atoi(Stat(pid, 1))
	return parent
}
