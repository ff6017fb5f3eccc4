//go:build linux

package recordings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// maxMapped is the maximum number of files of a process that are opened to find recordings.
	maxMapped = 256
	// maxEnvironment is the maximum size of an environment that is read.
	maxEnvironment = 1 << 20
)

func isEnd(err error) bool { return errors.Is(err, io.EOF) }

// Of returns the files to which processes record, and those to which earlier processes have
// recorded, with the paths that the processes see. A process has its recording mapped, and may
// have the path in its environment. Files that several processes lead to are returned once.
func Of(pids []int) (all []Recording) {
	seen := map[fileID]bool{}
	add := func(pid int, some []Recording, mapped bool) {
		for _, r := range some {
			if seen[r.id] {
				continue
			}
			seen[r.id] = true
			r.PID = pid
			if mapped {
				r.Kept = false // whatever its head states
			}
			all = append(all, r)
		}
	}
	patterns := map[int][]string{}
	for _, pid := range pids {
		found, paths := mapped(pid)
		add(pid, found, true)
		variable := Environment(pid, recording.Variable)
		if path, _, err := recording.ParseVariable(variable); err == nil {
			paths = append(paths, path)
		}
		patterns[pid] = paths
	}
	for _, pid := range pids {
		for _, pattern := range patterns[pid] {
			some, _ := Beside(pid, pattern)
			add(pid, some, false)
		}
	}
	return all
}

// Beside returns the recordings to a path that a process sees, which are files of its user.
func Beside(pid int, pattern string) ([]Recording, error) {
	if !path.IsAbs(pattern) {
		directory, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", proc.Task(pid)))
		if err != nil {
			return nil, err
		}
		pattern = path.Join(directory, pattern)
	}
	user := AnyUser
	if status, err := proc.ReadStatus(pid); err == nil {
		if n, err := strconv.ParseUint(status.Word("Uid", 1), 10, 32); err == nil {
			user = uint32(n)
		}
	}
	return stall.Do(fmt.Sprintf("/proc/%d/root%s", pid, path.Dir(pattern)), func() ([]Recording, error) {
		from, err := root.Of(pid)
		if err != nil {
			return nil, err
		}
		defer from.Close()
		return In(from, path.Clean(pattern), user)
	}, nil)
}

// mapped returns the recordings that a process has mapped, and their paths.
func mapped(pid int) (all []Recording, paths []string) {
	mappings, _, err := proc.Mappings(pid)
	if err != nil {
		return nil, nil
	}
	opened := 0
	for i := range mappings {
		m := &mappings[i]
		isData := !m.Executable && m.Offset == 0 && m.End-m.Start > recording.HeadBytes
		if !isData || strings.HasPrefix(m.Path, "/memfd:") || opened == maxMapped {
			continue
		}
		opened++
		r, err := stall.Do(m.Device, func() (r Recording, err error) {
			from, err := root.Of(pid)
			if err != nil {
				return r, err
			}
			defer from.Close()
			f, err := from.Open(m.Path)
			if err != nil {
				return r, err
			}
			defer f.Close()
			if _, ok := r.read(f); !ok {
				return r, recording.ErrCorrupt
			}
			return r, nil
		}, nil)
		if err == nil {
			r.File = m.Path
			all, paths = append(all, r), append(paths, m.Path)
		}
	}
	return all, paths
}

// Environment returns a variable of a process, as it was when it was started, or "".
func Environment(pid int, name string) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", proc.Task(pid)))
	if err != nil {
		return ""
	}
	defer f.Close()
	all, _ := io.ReadAll(io.LimitReader(f, maxEnvironment))
	for one := range bytes.SplitSeq(all, []byte{0}) {
		if value, ok := bytes.CutPrefix(one, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}
