//go:build linux

package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Called returns the process with a name: the name of its program, or the name that it has given to itself. If
// descendants of the process have the same name, they are ignored. The error wraps ErrNoProcess if there is no
// such process. It is also an error if there are several.
func Called(name string) (int, error) {
	pids, err := Processes()
	if err != nil {
		return 0, err
	}
	var found []int
	for _, pid := range pids {
		if pid != os.Getpid() && isCalled(pid, name) && Alive(pid) {
			found = append(found, pid)
		}
	}
	roots := slices.DeleteFunc(slices.Clone(found), func(pid int) bool { return slices.Contains(found, Parent(pid)) })
	switch len(roots) {
	case 0:
		return 0, fmt.Errorf("%w: none is called %q", ErrNoProcess, name)
	case 1:
		return roots[0], nil
	}
	var all []string
	for _, pid := range roots {
		all = append(all, fmt.Sprint(pid))
	}
	return 0, fmt.Errorf("is not unique: %d processes are called %q, with the PIDs %s", len(roots), name, strings.Join(all, ","))
}

// isCalled reports whether a process or its program has a name. The kernel cuts a process's name after 15 bytes.
func isCalled(pid int, name string) bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return false
	}
	if strings.TrimSuffix(string(comm), "\n") == name {
		return true
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", Task(pid)))
	return err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == name
}
