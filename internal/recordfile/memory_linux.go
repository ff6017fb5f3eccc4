package recordfile

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// memoryRoom returns how much more memory the process's control groups allow it, and which one allows
// the least. Allocating more ends in the OOM killer.
func memoryRoom() (room int64, group string) {
	room = math.MaxInt64
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return room, ""
	}
	for line := range strings.Lines(string(b)) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, at, _ := strings.Cut(rest, ":")
		switch {
		case id == "0":
			room, group = least(room, group, "/sys/fs/cgroup", at, "memory.max", "memory.current")
		case controllers == "memory":
			room, group = least(room, group, "/sys/fs/cgroup/memory", at, "memory.limit_in_bytes", "memory.usage_in_bytes")
		}
	}
	return room, group
}

// least returns the smallest room in a control group and those above it. In a container without a
// namespace of control groups, the path is not below the mount; its own group is then at the root.
func least(room int64, group, mount, at, limitFile, usageFile string) (int64, string) {
	for at = path.Clean("/" + at); ; at = path.Dir(at) {
		dir := path.Join(mount, at)
		limit, err := number(path.Join(dir, limitFile))
		usage, usageErr := number(path.Join(dir, usageFile))
		if err == nil && usageErr == nil && limit-usage < room {
			room, group = limit-usage, path.Join(dir, limitFile)
		}
		if at == "/" {
			return room, group
		}
	}
}

func number(file string) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // "max" is an error
}
