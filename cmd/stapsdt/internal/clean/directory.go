//go:build linux

package clean

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// shared is the directory that the C library uses. It also has files of other programs, and of all users.
const shared = "/tmp"

// ownerName matches a directory whose name contains the UID of its owner.
var ownerName = regexp.MustCompile(`/stapsdt-([0-9]+)$|^/run/user/([0-9]+)/stapsdt$`)

// expects reports whether a directory may belong to this owner: in /tmp, another user can create a directory with the name.
func (o *Options) expects(path string, owner int) bool {
	if o.Named || o.UID == owner {
		return true
	}
	number := ownerName.FindStringSubmatch(path)
	return o.UID < 0 && (number == nil || number[1]+number[2] == strconv.Itoa(owner))
}

// Directories returns the directories that a user's programs use in this environment. If all is
// true, it adds the directories of all users in the usual places. A directory may not exist. See
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
