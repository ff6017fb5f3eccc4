package recordfile

import (
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/proc"
)

// maxFile exceeds the size of each file that is read here.
const maxFile = 16 << 10

// MemoryRoom returns the memory that the machine has left and that the control groups of the process still allow, and the file with
// this limit. Allocating more ends in the OOM killer. Contents of files that were not used lately, which the kernel
// takes back first, count as room: in a container that has read a file, there may be no other room.
func MemoryRoom() (room int64, group string) {
	room, group = math.MaxInt64, ""
	if n := available(string(proc.Read("/proc/meminfo", maxFile))); n >= 0 {
		room, group = n, "/proc/meminfo"
	}
	for line := range strings.Lines(string(proc.Read("/proc/self/cgroup", maxFile))) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, at, _ := strings.Cut(rest, ":")
		switch {
		case id == "0":
			room, group = least(room, group, "/sys/fs/cgroup", at, v2)
		case controllers == "memory":
			room, group = least(room, group, "/sys/fs/cgroup/memory", at, v1)
		}
	}
	return room, group
}

// available returns the memory that can be used without swapping, according to /proc/meminfo, or -1.
func available(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 53)
			if err == nil {
				return n << 10
			}
		}
	}
	return -1
}

// files are the names, in a version of control groups, of the files with the limit and the usage, and of the field of memory.stat with
// the contents of files that were not used lately.
type files struct{ limit, usage, inactive string }

var (
	v1 = files{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	v2 = files{"memory.max", "memory.current", "inactive_file"}
)

// least returns the smallest room in a control group and its ancestors. In a container without a
// namespace of control groups, the path is not below the mount; its own group is then at the root.
func least(room int64, group, mount, at string, version files) (int64, string) {
	for at = path.Clean("/" + at); ; at = path.Dir(at) {
		dir := path.Join(mount, at)
		limit, err := number(path.Join(dir, version.limit))
		usage, usageErr := number(path.Join(dir, version.usage))
		if err == nil && usageErr == nil {
			if left := min(limit-usage+inactive(path.Join(dir, "memory.stat"), version.inactive), limit); left < room {
				room, group = left, path.Join(dir, version.limit)
			}
		}
		if at == "/" {
			return room, group
		}
	}
}

// inactive returns a field of memory.stat, or 0.
func inactive(file, field string) int64 {
	for line := range strings.Lines(string(proc.Read(file, maxFile))) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == field {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

func number(file string) (int64, error) {
	// "max" is an error, and so is a file that cannot be read.
	return strconv.ParseInt(strings.TrimSpace(string(proc.Read(file, 64))), 10, 64)
}
