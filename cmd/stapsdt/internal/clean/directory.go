//go:build linux

package clean

import (
	"path/filepath"
	"slices"
	"strconv"
)

// shared is the directory of the C library. It has files of other programs, and of all users.
const shared = "/tmp"

// Directories returns the directories that the programs of a user use, with the same
// environment, or for all those of all users in the usual places. They need not exist. See
// internal/region/place.go and cstapsdt/directory.c.
func Directories(getenv func(string) string, uid int, all bool) (paths []string) {
	if dir := getenv("STAPSDT_DIR"); dir != "" {
		paths = append(paths, dir)
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		paths = append(paths, filepath.Join(dir, "stapsdt"))
	}
	temporary := shared
	if dir := getenv("TMPDIR"); filepath.IsAbs(dir) {
		temporary = dir
	}
	paths = append(paths, filepath.Join(temporary, "stapsdt-"+strconv.Itoa(uid)), shared)
	if all {
		for _, pattern := range []string{shared + "/stapsdt-[0-9]*", filepath.Join(temporary, "stapsdt-[0-9]*"), "/run/user/[0-9]*/stapsdt"} {
			found, _ := filepath.Glob(pattern) // only a wrong pattern is an error
			paths = append(paths, found...)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
