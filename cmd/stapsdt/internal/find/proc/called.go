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

// Called returns the process with a name: the name of its program, or the name that it has given to
// itself. If descendants of the process have the same name, they are ignored. The error wraps
// ErrNoProcess if there is no such process. It is also an error if there are several.
func Called(name string) (int, error) {
	roots, err := called(name, func(its string) bool { return its == name })
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
	return 0, fmt.Errorf("is not unique: %d processes are called %q, with the PIDs %s", len(roots), name, strings.Join(all, ","))
}

// CalledLike returns the processes whose names match a pattern of path.Match, as Called. The error
// wraps ErrNoProcess if there are none.
func CalledLike(pattern string) ([]int, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, errors.New("takes the name of a process with *, ? and [a-z], not " + pattern)
	}
	return called(pattern, func(its string) bool {
		ok, _ := path.Match(pattern, its)
		return ok
	})
}

// called returns the processes with a name that is accepted, but no descendants of others.
func called(name string, accepts func(name string) bool) (roots []int, err error) {
	pids, err := Processes()
	if err != nil {
		return nil, err
	}
	var found []int
	for _, pid := range pids {
		if pid != os.Getpid() && slices.ContainsFunc(names(pid), accepts) && Alive(pid) {
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
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return nil
	}
	all = append(all, strings.TrimSuffix(string(comm), "\n"))
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", Task(pid))); err == nil {
		all = append(all, filepath.Base(strings.TrimSuffix(exe, " (deleted)")))
	}
	return all
}
