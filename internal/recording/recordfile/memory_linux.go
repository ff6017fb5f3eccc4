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

// Room is the memory that a process can still use.
type Room struct {
	// Bytes is the memory that the machine has left and that the control groups of the process
	// still allow. Allocating more ends in the OOM killer. Contents of files that were not used
	// lately, which the kernel takes back first, count as room: in a container that has read a
	// file, there may be no other room.
	Bytes int64
	// Group is the file with this limit.
	Group string
	// Unknown means that no limit of a control group was seen, but that there may be one in a group
	// that the process does not see: a container only sees its own, and a pod can have a limit in
	// the group above.
	Unknown bool
}

// MemoryRoom returns the memory that this process can still use.
func MemoryRoom() Room {
	r := Room{Bytes: math.MaxInt64}
	if n := available(string(proc.Read("/proc/meminfo", maxFile))); n >= 0 {
		r.Bytes, r.Group = n, "/proc/meminfo"
	}
	machine, seesAll := r.Group, false
	for line := range strings.Lines(string(proc.Read("/proc/self/cgroup", maxFile))) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, at, _ := strings.Cut(rest, ":")
		version, mount := v2, "/sys/fs/cgroup"
		if controllers == "memory" {
			version, mount = v1, "/sys/fs/cgroup/memory"
		} else if id != "0" {
			continue
		}
		r.Bytes, r.Group = least(r.Bytes, r.Group, mount, at, version)
		seesAll = seesAll || version.isRoot(mount)
	}
	r.Unknown = r.Group == machine && !seesAll
	return r
}

// available returns the memory that can be used without swapping, according to /proc/meminfo, or
// -1.
func available(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, err := strconv.ParseInt(
				strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 53,
			)
			if err == nil {
				return n << 10
			}
		}
	}
	return -1
}

// files are the names, in a version of control groups, of the files with the limit and the usage,
// and of the field of memory.stat with the contents of files that were not used lately. Each root
// has the file root, and none has the file notRoot.
type files struct{ limit, usage, inactive, root, notRoot string }

var (
	v1 = files{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "cgroup.sane_behavior", ""}
	v2 = files{"memory.max", "memory.current", "inactive_file", "cgroup.controllers", "cgroup.type"}
)

// isRoot reports whether a directory is the root of all control groups, not only of those that a
// container sees.
func (f *files) isRoot(dir string) bool {
	has := func(name string) bool { return len(proc.Read(path.Join(dir, name), 64)) > 0 }
	return has(f.root) && (f.notRoot == "" || !has(f.notRoot))
}

// least returns the smallest room in a control group and its ancestors. In a container without a
// namespace of control groups, the path is not below the mount; its own group is then at the root.
func least(room int64, group, mount, at string, version files) (int64, string) {
	for at = path.Clean("/" + at); ; at = path.Dir(at) {
		dir := path.Join(mount, at)
		limit, err := number(path.Join(dir, version.limit))
		usage, usageErr := number(path.Join(dir, version.usage))
		if err == nil && usageErr == nil {
			free := limit - usage + inactive(path.Join(dir, "memory.stat"), version.inactive)
			if left := min(free, limit); left < room {
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
