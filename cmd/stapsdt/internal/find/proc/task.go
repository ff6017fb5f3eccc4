//go:build linux

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"golang.org/x/sys/unix"
)

// A process can outlive its main thread, which is then a zombie (pthread_exit in main). Its
// directory in /proc still has the name, the start time, the users, the control group of version 2
// and the namespaces of PIDs and users. The other files are empty or cannot be read.

// Alive reports whether a process exists and has not exited. A zombie has exited, unless it is the
// main thread of a process that has others.
func Alive(pid int) bool {
	stat, err := readStat(pid)
	if stall.Short(err) {
		return true // it cannot be looked at now
	}
	state := word(stat, 0)
	return state != "" && state != "X" && (state != "Z" || outlivesMain(pid))
}

// HasMemory reports whether a process still has the memory of its program, without which it can run
// nothing of it. A process that exits loses its memory before it becomes a zombie.
func HasMemory(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", Task(pid)))
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH)
}

// Executable returns the path of a process's program, or "" if it is unknown. The path of a file
// that was deleted stays the same.
func Executable(pid int) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", Task(pid)))
	return strings.TrimSuffix(path, Deleted)
}

// Comm returns the name of a thread, or "" if it has ended.
func Comm(pid, tid int) string {
	comm, _ := readFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	return strings.TrimSuffix(string(comm), "\n")
}

// maxEnvironment is the maximum size of an environment that is read.
const maxEnvironment = 1 << 20

// Environment returns the variables of a process, as they were when it was started. Those that are
// unknown are "".
func Environment(pid int) func(name string) string {
	var all []byte
	if f, err := os.Open(fmt.Sprintf("/proc/%d/environ", Task(pid))); err == nil {
		defer f.Close()
		all, _ = io.ReadAll(io.LimitReader(f, maxEnvironment))
	}
	return func(name string) string {
		for one := range bytes.SplitSeq(all, []byte{0}) {
			if value, ok := bytes.CutPrefix(one, []byte(name+"=")); ok {
				return string(value)
			}
		}
		return ""
	}
}

// outlivesMain reports whether a process has outlived its main thread, which the kernel counts too.
func outlivesMain(pid int) bool {
	if Stat(pid, 0) != "Z" {
		return false
	}
	threads, _ := strconv.Atoi(Stat(pid, 17))
	return threads > 1
}

// Task returns the number under which /proc shows the memory, the files and all namespaces of a
// process: its PID or, after its main thread has ended, the ID of another thread. /proc does not
// list the directory of that thread. Unlike /proc/PID/task/TID, it has map_files.
func Task(pid int) int {
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil || !outlivesMain(pid) {
		return pid
	}
	directory, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return pid
	}
	defer directory.Close()
	for {
		names, err := directory.Readdirnames(16) // one thread that has not ended suffices
		for _, name := range names {
			link := fmt.Sprintf("/proc/%d/task/%s/exe", pid, name)
			if _, err := os.Readlink(link); !errors.Is(err, fs.ErrNotExist) {
				tid, _ := strconv.Atoi(name)
				return tid
			}
		}
		if err != nil {
			return pid
		}
	}
}
