//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ErrSeveral means that several processes have a name.
var ErrSeveral = errors.New("is not unique")

// Called returns the process with a name: the name of its program, or the name that it has given to
// itself. If descendants of the process have the same name, they are ignored. The error wraps
// ErrNoProcess if there is no such process, and ErrSeveral if there are several.
func Called(name string) (int, error) {
	roots, err := called(name, func(pid int) bool { return slices.Contains(names(pid), name) })
	if err != nil {
		return 0, err
	}
	if len(roots) == 1 {
		return roots[0], nil
	}
	var all []string
	for _, pid := range roots {
		all = append(all, fmt.Sprint(pid))
	}
	return 0, fmt.Errorf("%w: %d processes are called %q, with the PIDs %s", ErrSeveral, len(roots), name, strings.Join(all, ","))
}

// IsCalled reports whether a name of a process matches one of some patterns of path.Match.
func IsCalled(pid int, patterns []string) bool {
	return slices.ContainsFunc(names(pid), func(its string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, _ := path.Match(pattern, its)
			return ok
		})
	})
}

// CheckPattern returns an error if a pattern of names is not valid.
func CheckPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return errors.New("takes the name of a process with *, ? and [a-z], not " + pattern)
	}
	return nil
}

// CalledLike returns the processes whose names match a pattern of path.Match, as Called. The error
// wraps ErrNoProcess if there are none.
func CalledLike(pattern string) ([]int, error) {
	if err := CheckPattern(pattern); err != nil {
		return nil, err
	}
	return called(pattern, func(pid int) bool { return IsCalled(pid, []string{pattern}) })
}

// called returns the processes that are called something, but no descendants of others.
func called(name string, is func(pid int) bool) (roots []int, err error) {
	pids, err := Processes()
	if err != nil {
		return nil, err
	}
	var found []int
	for _, pid := range pids {
		if pid != os.Getpid() && is(pid) && Alive(pid) {
			found = append(found, pid)
		}
	}
	for _, pid := range found {
		if !slices.Contains(found, Parent(pid)) {
			roots = append(roots, pid)
		}
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("%w: none is called %q", ErrNoProcess, name)
	}
	return roots, nil
}

// names returns the names of a process and of its program. The kernel cuts a process's name after
// 15 bytes.
func names(pid int) (all []string) {
	comm, err := readFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return nil
	}
	all = append(all, strings.TrimSuffix(string(comm), "\n"))
	if exe := Executable(pid); exe != "" {
		all = append(all, filepath.Base(exe))
	}
	return all
}
