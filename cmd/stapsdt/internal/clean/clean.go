//go:build linux

package clean

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options select what to remove.
type Options struct {
	Directories []Directory
	// Older keeps files that were written, read or renamed since.
	Older time.Duration
	// DryRun removes nothing.
	DryRun bool
}

// Action tells what was done with a file.
type Action string

const (
	Removed Action = "removed"
	// Removable is what would be removed without DryRun.
	Removable Action = "removable"
	// Young was used too recently.
	Young Action = "young"
	// Mapped is in use.
	Mapped Action = "mapped"
	// Unseen may be in use, because not all processes can be seen.
	Unseen Action = "unseen"
	// Failed could not be removed.
	Failed Action = "failed"
)

// File is an image, or a directory that cannot be used, and what became of it.
type File struct {
	Path   string        `json:"file"`
	Action Action        `json:"action"`
	Why    string        `json:"why,omitempty"`
	Size   int64         `json:"size"`
	Unused time.Duration `json:"unused"`
}

// Clean removes the images in the directories that no process has mapped, and returns all that it
// found. It never follows a link, and removes only regular files that are images. blind is the
// reason that not every process can be seen here, or "": with DryRun, it does not ask the kernel
// whether such a process has a file open, so that more can be Removable than would be removed.
func Clean(opts Options) (files []File, blind string) {
	c := &cleaner{Options: opts, now: time.Now(), view: look()}
	for _, d := range opts.Directories {
		c.directory(d)
	}
	return c.files, c.view.blind
}

type cleaner struct {
	Options
	now   time.Time
	view  *view
	files []File
	// The directory that is being cleaned.
	dir  int
	path string
}

func (c *cleaner) failed(path string, err error) {
	c.files = append(c.files, File{Path: path, Action: Failed, Why: err.Error()})
}

// directory cleans a directory, and does nothing if there is none.
func (c *cleaner) directory(d Directory) {
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	if !d.Shared {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(d.Path, flags, 0)
	if err == unix.ENOENT {
		return
	}
	if err != nil {
		c.failed(d.Path, err)
		return
	}
	open := os.NewFile(uintptr(fd), d.Path)
	defer open.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		c.failed(d.Path, err)
		return
	}
	owner := d.Owner
	switch {
	case d.Shared:
	case owner < 0:
		owner = int(stat.Uid)
	case owner != int(stat.Uid):
		return // no directory that the library uses
	}
	if !d.Shared && !c.DryRun {
		// Programs that replace a bad file take turns by this lock.
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			c.failed(d.Path, fmt.Errorf("another process changes the directory: %w", err))
			return
		}
		defer unix.Flock(fd, unix.LOCK_UN)
	}
	names, err := open.Readdirnames(-1)
	if err != nil {
		c.failed(d.Path, err)
	}
	slices.Sort(names)
	c.dir, c.path = fd, d.Path
	for _, name := range names {
		if randomName.MatchString(name) || !d.Shared && hashName.MatchString(name) {
			c.file(name, owner)
		}
	}
}

// file removes a file if it is an image that is not in use.
func (c *cleaner) file(name string, owner int) {
	fd, err := open(c.dir, name)
	if err != nil {
		return // it is gone, or a link, or cannot be read and is of another user
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || owner >= 0 && owner != int(stat.Uid) {
		return
	}
	if !isImage(name, reader(fd)) {
		return
	}
	f := File{Path: filepath.Join(c.path, name), Size: stat.Size, Unused: c.now.Sub(latest(&stat)).Round(time.Second)}
	f.Action, f.Why = c.decide(fd, name, &stat)
	c.files = append(c.files, f)
}

// decide removes an image, or returns why not.
func (c *cleaner) decide(fd int, name string, stat *unix.Stat_t) (Action, string) {
	if c.now.Sub(latest(stat)) < c.Older {
		return Young, ""
	}
	if pid, found := c.view.user(name, stat.Ino); found {
		return Mapped, fmt.Sprintf("process %d has mapped it, or a file of that name", pid)
	}
	asks := leaseable(c.dir)
	if !asks && c.view.blind != "" {
		return Unseen, c.view.blind
	}
	if c.DryRun {
		return Removable, ""
	}
	aside, err := c.moveAside(name, stat)
	if err != nil {
		return Failed, err.Error()
	}
	state := useUnknown
	if asks {
		state = usage(fd)
	}
	why := c.view.blind
	if state == useUnknown && why == "" {
		again := look() // no process can open the file by its name any longer
		_, byName := again.user(aside, stat.Ino)
		switch why = again.blind; {
		case byName:
			state = used
		case why == "":
			state = unused
		}
	}
	if state == unused {
		if err := unix.Unlinkat(c.dir, aside, 0); err != nil {
			return Failed, errors.Join(err, c.moveBack(aside, name)).Error()
		}
		return Removed, ""
	}
	if err := c.moveBack(aside, name); err != nil {
		return Failed, err.Error()
	}
	if state == used {
		return Mapped, "a process has it open"
	}
	return Unseen, why
}

// moveAside renames a file so that no process opens it any more, and returns the name. It
// fails if the name leads to another file by now.
func (c *cleaner) moveAside(name string, stat *unix.Stat_t) (aside string, err error) {
	if strings.HasPrefix(name, asidePrefix) {
		return name, nil // since an earlier run
	}
	aside = asidePrefix + name
	if err := unix.Renameat2(c.dir, name, c.dir, aside, unix.RENAME_NOREPLACE); err != nil {
		return "", &fs.PathError{Op: "rename", Path: name, Err: err}
	}
	var now unix.Stat_t
	if err := unix.Fstatat(c.dir, aside, &now, unix.AT_SYMLINK_NOFOLLOW); err != nil || now.Ino != stat.Ino || now.Dev != stat.Dev {
		return "", errors.Join(errors.New("the file was replaced meanwhile"), err, c.moveBack(aside, name))
	}
	return aside, nil
}

// moveBack undoes moveAside. If a process has meanwhile made a file of the name, the other
// stays aside, where tracers find it by the path that /proc/PID/maps shows.
func (c *cleaner) moveBack(aside, name string) error {
	if aside == name {
		return nil
	}
	err := unix.Renameat2(c.dir, aside, c.dir, name, unix.RENAME_NOREPLACE)
	if err != nil && err != unix.EEXIST {
		return &fs.PathError{Op: "rename", Path: aside, Err: err}
	}
	return nil
}

// open opens a file for reading. This is no use of the file, and does not make it younger.
func open(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags|unix.O_NOATIME, 0)
	if err == unix.EPERM { // another user's
		fd, err = unix.Openat(dir, name, flags, 0)
	}
	return fd, err
}

// reader reads the file of a descriptor.
type reader int

func (fd reader) ReadAt(p []byte, off int64) (int, error) {
	n, err := unix.Pread(int(fd), p, off)
	if err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// latest returns when a file was last written, read or renamed.
func latest(stat *unix.Stat_t) time.Time {
	var last time.Time
	for _, each := range []unix.Timespec{stat.Atim, stat.Mtim, stat.Ctim} {
		if at := time.Unix(each.Unix()); at.After(last) {
			last = at
		}
	}
	return last
}
