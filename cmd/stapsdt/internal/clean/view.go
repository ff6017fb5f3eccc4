//go:build linux

package clean

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// view is what /proc shows of the files that processes have mapped.
type view struct {
	names  map[string]int // the last parts of their paths, and a process that has each
	inodes map[uint64]int
	// blind is the reason that it may not show all processes, or "".
	blind string
}

// look reads the memory maps of all processes.
func look() *view {
	v := &view{names: map[string]int{}, inodes: map[uint64]int{}}
	pids, err := target.Processes()
	if err != nil {
		v.blind = "/proc cannot be read: " + err.Error()
		return v
	}
	info, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.Readlink("/proc/self")
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	v.blind = hidden(own, os.Getpid(), namespace, string(info), rights.Has(rights.Ptrace))
	for _, pid := range pids {
		mappings, err := target.Mappings(pid)
		if err != nil && !errors.Is(err, target.ErrNoProcess) && v.blind == "" {
			v.blind = unreadable(pid, err)
		}
		for _, m := range mappings {
			name := path.Base(strings.TrimSuffix(m.Path, " (deleted)"))
			v.names[strings.TrimPrefix(name, asidePrefix)] = pid
			v.inodes[m.Inode] = pid
		}
	}
	return v
}

// hidden returns why /proc may not show all processes: own is what /proc/self leads to, and
// pid the number of this process in its namespace.
func hidden(own string, pid int, namespace, mountinfo string, ptrace bool) string {
	const initial = "pid:[4026531836]"
	switch {
	case own != strconv.Itoa(pid):
		return "/proc is not that of this PID namespace"
	case namespace != initial:
		return "this is not the initial PID namespace, and processes outside of it cannot be seen"
	case mountinfo == "":
		return "the options of /proc cannot be read"
	case hidesProcesses(mountinfo) && !ptrace:
		return "/proc is mounted with hidepid, and seeing the processes of others needs CAP_SYS_PTRACE"
	}
	return ""
}

// hidesProcesses reports whether the /proc that is in use hides the processes of others.
func hidesProcesses(mountinfo string) (hides bool) {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 || fields[4] != "/proc" {
			continue
		}
		hides = false // the last mount is the one that is seen
		for option := range strings.FieldsFuncSeq(after, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
			if value, ok := strings.CutPrefix(option, "hidepid="); ok {
				hides = value != "0" && value != "off"
			}
		}
	}
	return hides
}

func unreadable(pid int, err error) string {
	if errors.Is(err, fs.ErrPermission) && !rights.Has(rights.Ptrace) {
		return fmt.Sprintf("looking at other users' processes, such as %d, needs CAP_SYS_PTRACE", pid)
	}
	return err.Error()
}

// user returns a process that has mapped a file. Devices are not compared, because maps and
// stat show different ones on some file systems; the inode is not the same in both on overlayfs,
// where the name decides.
func (v *view) user(name string, inode uint64) (pid int, found bool) {
	if pid, found = v.names[strings.TrimPrefix(name, asidePrefix)]; !found {
		pid, found = v.inodes[inode]
	}
	return pid, found
}
