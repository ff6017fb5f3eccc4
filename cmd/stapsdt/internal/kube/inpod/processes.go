//go:build linux

package inpod

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

// Look describes the processes of a container and how they can be watched. If alone is set, the
// container has its own PID namespace, in which its first process has PID 1.
func Look(container string, alone bool) (*Answer, error) {
	Use()
	pids, err := Find(container, alone)
	if err != nil {
		return nil, err
	}
	a := &Answer{
		Protocol: Protocol, Resumes: Resumes,
		UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Processes: []Process{},
	}
	for _, pid := range proc.Family(pids) {
		status, err := proc.ReadStatus(pid)
		if err != nil || !proc.Alive(pid) {
			continue
		}
		p := Process{PID: pid, UID: number(status.Word("Uid", 1)), GID: number(status.Word("Gid", 1))}
		_, err = os.Stat(fmt.Sprintf("/proc/%d/root/", proc.Task(pid)))
		p.Readable = err == nil
		if p.Readable {
			_, err = socket.Find(pid)
			p.Listens = err == nil
			p.Asked, _ = wire.ParseVariable(proc.Environment(pid)(wire.Variable))
		}
		a.Processes = append(a.Processes, p)
	}
	return a, nil
}

// Find returns the processes of a container that have their parents outside it. -p also
// selects their descendants.
func Find(container string, alone bool) ([]int, error) {
	all := inside(container, alone)
	var roots []int
	for _, pid := range all {
		if proc.Alive(pid) && !slices.Contains(all, proc.Parent(pid)) {
			roots = append(roots, pid)
		}
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("%w of the container %.12s is visible here", proc.ErrNoProcess, container)
	}
	return roots, nil
}

func inside(container string, alone bool) (found []int) {
	all, _ := proc.Processes()
	for _, pid := range all {
		if groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)); err == nil &&
			isOf(string(groups), container) {
			found = append(found, pid)
		}
	}
	if len(found) == 0 && alone && slices.Contains(all, 1) {
		return []int{1} // control groups are not visible here, as in gVisor
	}
	return found
}

// groupID finds the ID of a container in the name of a control group: cri-containerd-ID.scope,
// crio-ID.scope, or ID.
var groupID = lazyregexp.New(`^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?$`)

// isOf reports whether groups, the content of /proc/PID/cgroup, belongs to a process of a
// container. The outermost ID decides, because a container can create groups below its own and give
// them any names. CRI-O runs a process of its own beside each container, in a group of nearly the
// same name.
func isOf(groups, container string) bool {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[2], "/") {
			match := groupID().FindStringSubmatch(name)
			if match == nil {
				continue
			}
			if match[1] == container && !strings.Contains(name, "conmon") {
				return true
			}
			break
		}
	}
	return false
}

func number(text string) uint32 {
	n, _ := strconv.ParseUint(text, 10, 32)
	return uint32(n)
}
