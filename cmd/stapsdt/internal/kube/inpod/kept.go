//go:build linux

package inpod

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Recorded selects the recordings of a container.
type Recorded struct {
	// Mounted means that the container does not run, and that its volumes are mounted here.
	Mounted bool
	// Variable is the value of STAPSDT_RECORD in the specification of such a container.
	Variable string
	// From is the path of a recording as the container sees it, or its name in the directory of
	// Variable. If it is empty, Kept selects the latest recording of an earlier process, and Newest
	// that which tells most of the end of a program.
	From         string
	Kept, Newest bool
}

// Given reports whether a recording is selected.
func (r *Recorded) Given() bool { return r.From != "" || r.Kept || r.Newest }

// errNone means that there is no recording of an earlier process.
var errNone = fmt.Errorf("no earlier process has left a recording: %w", fs.ErrNotExist)

// errNever means that there is no recording.
var errNever = fmt.Errorf("no process has left a recording: start the program with %s=FILE, where FILE is in a volume: %w", recording.Variable, fs.ErrNotExist)

// All returns the recordings of the container, whose processes are pids.
func (r *Recorded) All(pids []int) ([]recordings.Recording, error) {
	if !r.Mounted {
		return recordings.Of(proc.Family(pids)), nil
	}
	pattern, _, err := recording.ParseVariable(r.Variable)
	if err != nil {
		return nil, err
	}
	from, err := root.Of(0)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	all, err := recordings.In(from, path.Clean("/"+pattern), uint32(os.Geteuid()))
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("there is no recording to %s: %w", pattern, fs.ErrNotExist)
	}
	return all, err
}

// Open opens the selected recording, and returns a file whose name is the path that the container
// sees.
func (r *Recorded) Open(pids []int) (*os.File, error) {
	name := r.From
	if !strings.Contains(name, "/") {
		all, err := r.All(pids)
		if err != nil {
			return nil, err
		}
		if name, err = r.choose(all); err != nil {
			return nil, r.withReason(err, pids, all)
		}
	}
	name = path.Clean("/" + name)
	if r.Mounted {
		pids = []int{0}
	}
	var problem error
	for _, pid := range pids {
		f, err := openBelow(pid, name)
		if err == nil {
			return f, nil
		}
		problem = err
	}
	return nil, problem
}

// withReason adds why there may be no recording of an earlier process.
func (r *Recorded) withReason(err error, pids []int, all []recordings.Recording) error {
	missing := recordings.Missing(proc.Family(pids), all)
	if r.Mounted || r.From != "" || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("%w; %s", err, recordings.MissingText(missing[0]))
}

// choose returns the path of the recording with the name of From, or of the latest kept one.
func (r *Recorded) choose(all []recordings.Recording) (string, error) {
	if r.From == "" && r.Newest {
		if newest := recordings.Newest(all); newest != nil {
			return newest.File, nil
		}
		return "", errNever
	}
	if r.From == "" {
		if latest := recordings.Latest(all); latest != nil {
			return latest.File, nil
		}
		return "", errNone
	}
	for i := range all {
		if path.Base(all[i].File) == r.From {
			return all[i].File, nil
		}
	}
	return "", fmt.Errorf("%s: list names no such recording: give its path, or a name that list shows: %w", r.From, fs.ErrNotExist)
}

// openBelow opens a recording as a process sees it, or this one if pid is 0, which runs as the
// program did. A process of that user, or root, has made it.
func openBelow(pid int, name string) (*os.File, error) {
	from, err := root.Of(pid)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	f, err := from.Open(name)
	if err != nil {
		return nil, err
	}
	if err := recordings.CheckMaker(f, cmp.Or(pid, os.Getpid())); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// errWritten means that a recording is still being written, so that a copy would not be exact.
var errWritten = errors.New("a process still records to it: read it with trace, top or another command and --from, or record without --kept")

// CheckKept returns an error if a file is not the recording of a process that has ended.
func CheckKept(f *os.File) error {
	switch kept, ok := recordings.IsKept(f); {
	case !ok:
		return fmt.Errorf("%s: %w", f.Name(), recording.ErrCorrupt)
	case !kept:
		return fmt.Errorf("%s: %w", f.Name(), errWritten)
	}
	return nil
}

// LookAtMounts describes whether the directory of the recordings can be read. It returns a process
// without a PID, with the directory's owner, which the process must have been.
func (r *Recorded) LookAtMounts() (*Answer, error) {
	Use()
	a := &Answer{Protocol: Protocol, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	name := r.From
	if !strings.Contains(name, "/") {
		pattern, _, err := recording.ParseVariable(r.Variable)
		if err != nil {
			return nil, err
		}
		name = pattern
	}
	from, err := root.Of(0)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	info, isReadable, err := from.Directory(path.Dir(path.Clean("/" + name)))
	if err != nil {
		return nil, err
	}
	st := info.Sys().(*syscall.Stat_t)
	p := Process{UID: st.Uid, GID: st.Gid, Readable: isReadable && (st.Uid == a.UID || st.Uid == 0)}
	a.Processes = []Process{p}
	return a, nil
}
