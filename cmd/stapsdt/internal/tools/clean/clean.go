//go:build linux

// Package clean removes the images that the library and libstapsdt have left. A lease on a file
// shows whether any process, even in another namespace, has the file open or mapped.
package clean

import (
	"crypto/rand"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"

	"golang.org/x/sys/unix"
)

// Options select the files to remove.
type Options struct {
	// Named lists the directories that the user named, which may belong to any user. If it is
	// empty, the directories are those that Directories returns.
	Named []string
	// All selects the directories and files of all users.
	All bool
	// Older is the time for which a file must not have been written, read or renamed.
	Older time.Duration
	// DryRun removes nothing.
	DryRun bool
}

// Action is the result for a file.
type Action string

const (
	Removed Action = "removed"
	// Removable is a file that would be removed without DryRun, unless the kernel reports that it
	// is in use.
	Removable Action = "removable"
	Young     Action = "young"  // the file was used too recently
	Mapped    Action = "mapped" // the file is in use
	// Unseen is a file for which the kernel does not report whether it is in use.
	Unseen Action = "unseen"
	Failed Action = "failed"
)

// File is an image, or a directory that cannot be used, and the result for it.
type File struct {
	Path   string        `json:"file" doc:"path"`
	Action Action        `json:"action" doc:"what was done" enum:"removed removable young mapped unseen failed"`
	Why    string        `json:"why,omitempty" doc:"reason"`
	Size   int64         `json:"size" doc:"bytes; of the file"`
	Unused time.Duration `json:"unused" doc:"since the last use, in nanoseconds; of the file"`
}

// The name of an image file has a hash of the content after the provider, or in the C library six
// characters of mkstemp.
var (
	hashName   = lazyregexp.New(`^.+-[0-9a-f]{32}\.so$`)
	randomName = lazyregexp.New(`^.+-[A-Za-z0-9]{6}\.so$`)
	// ownerName matches a directory whose name contains the UID of its owner.
	ownerName = lazyregexp.New(`/stapsdt-([0-9]+)$|^/run/user/([0-9]+)/stapsdt$`)
)

// shared is the directory that the C library uses. It also has files of other programs, and of all
// users.
const shared = "/tmp"

// Directories returns the directories that a user's programs use in this environment. If all is
// true, it adds the directories of all users in the usual places. A directory may not exist. See
// internal/region/place.go and cstapsdt/directory.c.
func Directories(getenv func(string) string, uid int, all bool) (paths []string) {
	if dir := getenv("STAPSDT_DIR"); dir != "" {
		paths = append(paths, dir)
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		paths = append(paths, filepath.Join(dir, "stapsdt"))
	}
	temporary := shared
	if dir := getenv("TMPDIR"); filepath.IsAbs(dir) {
		temporary = dir
	}
	paths = append(paths, filepath.Join(temporary, "stapsdt-"+strconv.Itoa(uid)), shared)
	if all {
		for _, pattern := range []string{shared + "/stapsdt-[0-9]*", filepath.Join(temporary, "stapsdt-[0-9]*"), "/run/user/[0-9]*/stapsdt"} {
			found, _ := filepath.Glob(pattern) // only a wrong pattern is an error
			paths = append(paths, found...)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Clean removes the images in the directories that no process uses, and returns the results. It
// follows no link, and removes only regular files of the directory's owner that are images.
func Clean(opts Options) []File {
	c := &cleaner{Options: opts, now: time.Now(), mapped: map[string]int{}}
	pids, _ := proc.Processes() // a lease also finds the processes that are hidden here
	for _, pid := range pids {
		mappings, _, _ := proc.Mappings(pid)
		for _, m := range mappings {
			c.mapped[filepath.Base(m.Path)] = pid
		}
	}
	directories := opts.Named
	if len(directories) == 0 {
		directories = Directories(os.Getenv, os.Geteuid(), opts.All)
	}
	for _, path := range directories {
		if err := c.directory(path); err != nil && err != unix.ENOENT {
			c.files = append(c.files, File{Path: path, Action: Failed, Why: err.Error()})
		}
	}
	return c.files
}

type cleaner struct {
	Options
	now    time.Time
	mapped map[string]int // PIDs by the names of the files that they have visibly mapped
	files  []File
}

// expects reports whether a directory may belong to this owner: in /tmp, another user can create a
// directory with the name.
func (c *cleaner) expects(path string, owner int) bool {
	number := ownerName().FindStringSubmatch(path)
	return len(c.Named) > 0 || owner == os.Geteuid() ||
		c.All && (number == nil || number[1]+number[2] == strconv.Itoa(owner))
}

func (c *cleaner) directory(path string) error {
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	if path != shared {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	owner := int(stat.Uid)
	if path == shared {
		if owner = os.Geteuid(); c.All {
			owner = -1 // any
		}
	} else if !c.expects(path, owner) {
		return nil // the library does not use this directory
	} else if !c.DryRun {
		// Programs that replace a bad file take this lock.
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return fmt.Errorf("another process changes the directory: %w", err)
		}
	}
	names, err := dir.Readdirnames(-1)
	slices.Sort(names)
	for _, name := range names {
		if randomName().MatchString(name) || path != shared && hashName().MatchString(name) {
			c.file(dir, name, owner)
		}
	}
	return err
}

// file removes a file if it is an image that is not in use.
func (c *cleaner) file(dir *os.File, name string, owner int) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOATIME, 0) // keeps the access time
	// the file is another user's
	if err == unix.EPERM {
		fd, err = unix.Openat(int(dir.Fd()), name, flags, 0)
	}
	if err != nil {
		return // it is gone, a link, or an unreadable file of another user
	}
	file := root.NewFile(fd, name)
	defer file.Close()
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG ||
		owner >= 0 && owner != int(stat.Uid) ||
		!isImage(file) {
		return
	}
	var last time.Time
	for _, each := range []unix.Timespec{stat.Atim, stat.Mtim, stat.Ctim} {
		if at := time.Unix(each.Unix()); at.After(last) {
			last = at
		}
	}
	unused := max(0, c.now.Sub(last)) // it may have been used after now
	f := File{
		Path: filepath.Join(dir.Name(), name), Size: stat.Size, Unused: unused.Round(time.Second),
	}
	switch pid, found := c.mapped[name]; {
	case unused < c.Older:
		f.Action = Young
	case found:
		f.Action, f.Why = Mapped, fmt.Sprintf("process %d has mapped it, or a file of that name", pid)
	case !leaseable(fd):
		f.Action, f.Why = Unseen, "the kernel does not report on this file system whether a process has it mapped"
	case c.DryRun:
		f.Action = Removable
	default:
		f.Action, f.Why = remove(int(dir.Fd()), name, fd, &stat)
	}
	c.files = append(c.files, f)
}

// isImage reports whether a file is an image of this library: the files that linkers make have
// other sections.
func isImage(file *os.File) bool {
	const sections = "  .note.gnu.build-id .hash .dynsym .dynstr .text .stapsdt.base .dynamic .note.stapsdt .debug_info .debug_abbrev .debug_str .debug_aranges .debug_line .shstrtab "
	f, err := elffile.New(file)
	return err == nil && f.Type == elf.ET_DYN && f.Section(".note.stapsdt") != nil && f.Section(".stapsdt.base") != nil &&
		!slices.ContainsFunc(
			f.Sections,
			func(s *elf.Section) bool { return !strings.Contains(sections, " "+s.Name+" ") },
		)
}

// leaseable reports whether a mapped file of this file system counts as open: on overlayfs, a
// mapping holds another file open.
func leaseable(fd int) bool {
	known := []uint32{
		unix.EXT4_SUPER_MAGIC,
		unix.XFS_SUPER_MAGIC,
		unix.BTRFS_SUPER_MAGIC,
		unix.TMPFS_MAGIC,
		unix.F2FS_SUPER_MAGIC,
	}
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && slices.Contains(known, uint32(fs.Type))
}

// remove removes a file unless the kernel reports that another process uses it. It renames the file
// first, so that no process opens it, because opening it fails during the lease. If a process has
// created the file again meanwhile, the old file keeps the new name, which /proc/PID/maps shows,
// and which a later run finds.
func remove(dir int, name string, fd int, stat *unix.Stat_t) (action Action, why string) {
	random := rand.Text()
	aside := ".cleaning-" + random[:20] + "-" + random[20:] + ".so" // a randomName
	if err := unix.Renameat2(dir, name, dir, aside, unix.RENAME_NOREPLACE); err != nil {
		return Failed, err.Error()
	}
	var now unix.Stat_t
	err := unix.Fstatat(dir, aside, &now, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || now.Ino != stat.Ino || now.Dev != stat.Dev {
		action, why = Failed, "the file was replaced meanwhile"
	} else if _, err = unix.FcntlInt(
		uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK,
	); err == unix.EAGAIN {
		action, why = Mapped, "a process has it open"
	} else if err != nil { // the file is another user's, and CAP_LEASE is missing
		action, why = Unseen, fmt.Sprintf("the kernel does not report whether it is in use: %v", err)
	} else if err = unix.Unlinkat(dir, aside, 0); err != nil {
		action, why = Failed, err.Error()
	} else {
		return Removed, ""
	}
	if err := unix.Renameat2(dir, aside, dir, name, unix.RENAME_NOREPLACE); err != nil &&
		err != unix.EEXIST {
		return Failed, err.Error()
	}
	return action, why
}
