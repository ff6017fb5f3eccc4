//go:build linux

package proc

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// FamilyIn reports whether a process or any of its descendants is in a set.
func FamilyIn(pid int, set map[int]bool) bool {
	return slices.ContainsFunc(Family([]int{pid}), func(pid int) bool { return set[pid] })
}

// Family returns processes and those of their descendants whose parents are alive. The named
// processes may be dead.
func Family(pids []int) []int {
	if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); err != nil {
		return familyOfAll(pids) // Linux without CONFIG_PROC_CHILDREN
	}
	family, known := []int{}, map[int]bool{}
	add := func(pid int) {
		if !known[pid] {
			known[pid] = true
			family = append(family, pid)
		}
	}
	for _, pid := range pids {
		add(pid)
	}
	for i := 0; i < len(family); i++ {
		tasks := fmt.Sprintf("/proc/%d/task", family[i])
		threads, _ := numbers(tasks)
		for _, tid := range threads {
			text, _ := readFile(fmt.Sprintf("%s/%d/children", tasks, tid)) // it may have ended
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					add(pid)
				}
			}
		}
	}
	return family
}

// familyOfAll is Family, but looks at the parents of all processes.
func familyOfAll(pids []int) []int {
	family, known := []int{}, map[int]bool{}
	for _, pid := range pids {
		known[pid] = true
	}
	all, _ := Processes()
	for _, pid := range all { // children often have higher PIDs than their parents
		if known[pid] || known[Parent(pid)] {
			known[pid] = true
			family = append(family, pid)
		}
	}
	return family
}
