//go:build linux

package probes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
)

// finding finds the files with probes that a process has mapped. The method Process of a
// *target.Finder is one.
type finding = func(pid int) (uses []target.Use, skipped error, err error)

// Found is the result of a look at processes.
type Found struct {
	Files []*target.File
	Uses  map[*target.File][]Use
	// Any reports whether any file with probes was found, even if none was kept.
	Any bool
	// Refused is the first refusal to look at a process, or nil. Incomplete counts the processes
	// that could not be read completely.
	Refused    *rights.Error
	Incomplete int
	// First is the refusal to look at process 1 although no right is missing, or nil: a hardened
	// machine hides its first process, which has no probes, and nothing can be done about it.
	First *rights.Error
	// Short is the first shortage that kept a process or one of its files from being looked at, or
	// nil.
	Short error
	// PutOff is the first file that is put off, or nil.
	PutOff *target.PutOff
}

// Blind returns an error if no file was found, and rights are missing to look at all processes.
func (f *Found) Blind() error {
	if !f.Any && f.Refused != nil && len(f.Refused.Missing) > 0 {
		return f.Refused
	}
	return nil
}

// Warning returns a sentence with the number of processes that could not be looked at completely,
// or "" if there is none. done is the verb of the sentence, such as "traced".
func (f *Found) Warning(done string) string {
	if f.Refused == nil {
		return ""
	}
	processes := "1 process is"
	if f.Incomplete != 1 {
		processes = fmt.Sprintf("%d processes are", f.Incomplete)
	}
	return fmt.Sprintf("%s not %s completely: %v", processes, done, f.Refused)
}

// Hidden returns a sentence about process 1 for a user who wants to know more, or "". Only a search
// of all processes is about process 1.
func (f *Found) Hidden(all bool) string {
	if f.First == nil || !all {
		return ""
	}
	return fmt.Sprintf("process 1 is not looked at: %v", f.First)
}

// DropMoved drops the processes that have moved the code of a file, and files that no other process
// has mapped. It returns an error for each file whose code was moved.
func (f *Found) DropMoved() (moved []error) {
	f.Files = slices.DeleteFunc(f.Files, func(file *target.File) bool {
		all := len(f.Uses[file])
		f.Uses[file] = slices.DeleteFunc(f.Uses[file], func(u Use) bool { return u.Moved })
		if len(f.Uses[file]) < all {
			moved = append(moved, file.Moves)
		}
		return len(f.Uses[file]) == 0
	})
	return moved
}

// Use is a process that has mapped a file.
type Use struct {
	PID int
	target.Use
}

// Look looks at processes, one after another, and keeps the files with probes for which keep, if it
// is not nil, returns true. It fails if a named process has exited or cannot be read, or if a
// shortage keeps one of its files from being opened. Some of the other processes always exit
// meanwhile, so Look only counts those that cannot be read. A file that is put off is not a
// failure.
func Look(find finding, pids, named []int, keep func(*target.File) bool) (*Found, error) {
	found := &Found{Uses: map[*target.File][]Use{}}
	for _, pid := range pids {
		uses, err := found.look(find, pid, slices.Contains(named, pid))
		if err != nil {
			return nil, err
		}
		for _, u := range uses {
			if keep != nil && !keep(u.File) {
				continue
			}
			if found.Uses[u.File] == nil {
				found.Files = append(found.Files, u.File)
			}
			found.Uses[u.File] = append(found.Uses[u.File], Use{pid, u})
		}
	}
	return found, nil
}

// look returns the files with probes that a process has mapped.
func (f *Found) look(find finding, pid int, named bool) ([]target.Use, error) {
	uses, skipped, err := find(pid)
	var putOff *target.PutOff
	if errors.As(skipped, &putOff) {
		f.PutOff = cmp.Or(f.PutOff, putOff)
	}
	if stall.Passes(skipped) {
		err = errors.Join(err, skipped)
	}
	if err != nil && named {
		return nil, err
	}
	if f.Short == nil && stall.Passes(err) {
		f.Short = err
	}
	var refused *rights.Error
	switch is := errors.As(errors.Join(err, skipped), &refused); {
	case is && !named && pid == 1 && len(refused.Missing) == 0:
		f.First = refused
	case is:
		if f.Refused == nil {
			f.Refused = refused
		}
		f.Incomplete++
	}
	f.Any = f.Any || len(uses) > 0
	return uses, nil
}
