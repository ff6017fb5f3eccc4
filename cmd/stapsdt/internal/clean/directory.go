//go:build linux

package clean

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// shared is the directory of the C library. It has files of other programs, and of all users.
const shared = "/tmp"

// ownerName matches a directory whose name has the number of its owner.
var ownerName = regexp.MustCompile(`/stapsdt-([0-9]+)$|^/run/user/([0-9]+)/stapsdt$`)

// expects reports whether a directory may belong to this owner: another user can make one of that name in /tmp.
func (o *Options) expects(path string, owner int) bool {
	if o.Named || o.UID == owner {
		return true
	}
	number := ownerName.FindStringSubmatch(path)
	return o.UID < 0 && (number == nil || number[1]+number[2] == strconv.Itoa(owner))
}

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
