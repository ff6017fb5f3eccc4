package recordfile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/region"

	"golang.org/x/sys/unix"
)

var (
	// errTaken means that a process has locked a file, or that it belongs to another user.
	errTaken = errors.New("it is in use by another process, or belongs to another user")
	// errOther means that a file of this user is not a recording.
	errOther = errors.New("the file there is not a recording")
)

// openOurs opens a recording of this user's processes. Files that are renamed, counted or removed
// are identified by their owner and their first bytes. Files of others are not even opened.
func (d *directory) openOurs(path string) (f *os.File, err error) {
	st, err := d.lstat(path)
	if err != nil {
		return nil, err
	}
	if !isMine(st.Uid) {
		return nil, errTaken
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errOther
	}
	if f, err = d.openFile(path, unix.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		return nil, err
	}
	var magic [len(recording.Magic)]byte
	if !isSame(f, st) {
		err = errTaken // by a process that works on the same files
	} else if _, err = f.ReadAt(magic[:], 0); string(magic[:]) != recording.Magic {
		err = errOther
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isMine reports whether a file is this user's. In a user namespace, all users without a UID there
// have the same number.
func isMine(uid uint32) bool {
	return uid == uint32(os.Geteuid()) && (uid != region.OverflowUser || region.AllUsersMapped())
}

// lockEnded locks a recording if its process has ended: a process locks its file as long as it
// lives. Other processes neither rename nor remove a file with this lock, but one of them may have
// done so before.
func (d *directory) lockEnded(f *os.File) bool {
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	st, err := d.lstat(f.Name())
	return err == nil && isSame(f, st)
}

// moveAway renames the recording that an earlier process has left at a path, and returns its new
// name, which has the present time, or "" if the path may be free by now. A file that is not ours
// stays.
func (d *directory) moveAway(path string) (name string, err error) {
	old, err := d.openOurs(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer old.Close()
	if !d.lockEnded(old) {
		return "", errTaken
	}
	name = path + "-" + kind.FileTime(time.Now())
	if err = d.rename(path, name); errors.Is(err, os.ErrExist) {
		return "", nil // the next name has a later time
	}
	return name, err
}

// isTimeSuffix reports whether rest is the suffix that moveAway adds to a name, such as
// -20060102T150405.000000000Z: the time at which another process found the recording. With package
// time, which could parse it, a program would be 80 KB larger.
func isTimeSuffix(rest string) bool {
	shape := strings.Map(func(r rune) rune {
		if '1' <= r && r <= '9' {
			return '0'
		}
		return r
	}, rest)
	return shape == "-00000000T000000.000000000Z"
}

// IsName reports whether a recording of a process can have this name: the pattern with its PID,
// followed by nothing, a time, .PID or .PID.N.
func IsName(name, pattern, pid string) bool {
	rest, ok := strings.CutPrefix(name, strings.ReplaceAll(pattern, "%p", pid))
	if !ok || rest == "" || isTimeSuffix(rest) {
		return ok
	}
	rest, ok = strings.CutPrefix(rest, "."+pid)
	number, hasNumber := strings.CutPrefix(rest, ".")
	return ok && (rest == "" || hasNumber && number != "" && strings.Trim(number, "0123456789") == "")
}

// The ranks of recordings.
const (
	rankEnded = iota
	rankBeside
	rankCrash
	rankBit = 62
)

// Worth returns the worth of the recording that has this head: its rank and, in the bits below, the
// time at which it began. Recordings of the least worth are removed first.
func Worth(head []byte) uint64 {
	le := binary.LittleEndian
	began, rank := le.Uint64(head[recording.OffBegin+16:]), uint64(rankCrash)
	switch {
	case le.Uint64(head[recording.OffChunks:]) == 0:
		return 0 // its process has ended before it was complete
	case le.Uint32(head[recording.OffEnded:]) != 0:
		rank = rankEnded
	case le.Uint32(head[recording.OffBeside:]) != 0:
		rank = rankBeside
	}
	return rank<<rankBit | began&(1<<rankBit-1) // a damaged time does not change the rank
}

// tidy keeps [Keep] recordings of ended processes to a path. If there are more, it removes those of
// the least [Worth]: recordings that were ended properly first, then those that began beside
// another process, such as those of its children, and other crashes last; of each rank, the oldest
// first. It returns the files that it has removed, and reports whether another process records to
// the path that did not itself begin beside a third one. A file that cannot be removed stays.
func (d *directory) tidy(pattern, own string) (removed string, beside bool) {
	dir, own := filepath.Dir(own), filepath.Base(own)
	prefix, _, _ := strings.Cut(filepath.Base(pattern), "%p")
	type earlier struct {
		name  string
		worth uint64
	}
	var all []earlier
	for _, name := range d.names() {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || rest == "" || !strings.Contains("-.0123456789", rest[:1]) || name == own {
			continue // it is not opened
		}
		worth, ended, ok := d.lookAt(name, filepath.Base(pattern))
		if ok && ended {
			all = append(all, earlier{name, worth})
		}
		beside = beside || ok && !ended && worth>>rankBit == rankCrash
	}
	slices.SortFunc(all, func(a, b earlier) int { return cmp.Compare(a.worth, b.worth) })
	var names []string
	for i, one := range all {
		if (one.worth == 0 || i < len(all)-Keep) && d.remove(one.name) {
			names = append(names, filepath.Join(dir, one.name))
		}
	}
	return strings.Join(names, ", "), beside
}

// lookAt looks at a file that may be a recording to a path, and reports whether its process has
// ended.
func (d *directory) lookAt(name, pattern string) (worth uint64, ended, ok bool) {
	f, err := d.openOurs(name)
	if err != nil {
		return 0, false, false
	}
	defer f.Close()
	var head [recording.OffBeside + 4]byte
	_, _ = f.ReadAt(head[:], 0)
	pid := strconv.FormatUint(uint64(binary.LittleEndian.Uint32(head[recording.OffPID:])), 10)
	if !IsName(name, pattern, pid) {
		return 0, false, false
	}
	// Several processes may look at the same time.
	ended = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil
	return Worth(head[:]), ended, true
}

// remove removes a recording that no process writes.
func (d *directory) remove(name string) bool {
	f, err := d.openOurs(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return d.lockEnded(f) && d.unlink(name) == nil
}
