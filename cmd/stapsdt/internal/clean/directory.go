//go:build linux

package clean

import (
	"path/filepath"
	"regexp"
	"strconv"
)

// Directory is one in which images may be.
type Directory struct {
	Path string
	// Shared means that it has other files too, such as /tmp: only the files that the C library
	// makes there are images, and each belongs to the user who made it.
	Shared bool
	// Owner is the user to whom the directory must belong, or the files if it is shared; -1
	// is any user.
	Owner int
}

// Directories returns the directories that the programs of a user use, with the same
// environment. They need not exist. See internal/region/place.go and cstapsdt/directory.c.
func Directories(getenv func(string) string, uid int) []Directory {
	var all []Directory
	if dir := getenv("STAPSDT_DIR"); dir != "" {
		all = append(all, Directory{Path: dir, Owner: uid})
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		all = append(all, Directory{Path: filepath.Join(dir, "stapsdt"), Owner: uid})
	}
	return append(all,
		Directory{Path: filepath.Join(temporary(getenv), "stapsdt-"+strconv.Itoa(uid)), Owner: uid},
		Directory{Path: "/tmp", Shared: true, Owner: uid})
}

func temporary(getenv func(string) string) string {
	if dir := getenv("TMPDIR"); filepath.IsAbs(dir) {
		return dir
	}
	return "/tmp"
}

// AllDirectories returns the directories of all users, as far as they are in the usual
// places.
func AllDirectories(getenv func(string) string, uid int) []Directory {
	all := Directories(getenv, uid)
	all[len(all)-1].Owner = -1
	known := map[string]bool{}
	for _, d := range all {
		known[d.Path] = true
	}
	for _, pattern := range []string{"/tmp/stapsdt-*", filepath.Join(temporary(getenv), "stapsdt-*"), "/run/user/*/stapsdt"} {
		found, _ := filepath.Glob(pattern) // only a wrong pattern is an error
		for _, path := range found {
			m := ownDirectory.FindStringSubmatch(path)
			if m == nil || known[path] {
				continue
			}
			known[path] = true
			owner, err := strconv.Atoi(m[1] + m[2])
			if err == nil {
				all = append(all, Directory{Path: path, Owner: owner})
			}
		}
	}
	return all
}

// ownDirectory matches a directory whose name says whose it is.
var ownDirectory = regexp.MustCompile(`(?:/stapsdt-([0-9]+)|^/run/user/([0-9]+)/stapsdt)$`)

// Named returns a directory that the user names, which can be anyone's.
func Named(path string) Directory {
	absolute, err := filepath.Abs(path)
	if err != nil {
		absolute = path // only without a working directory
	}
	return Directory{Path: absolute, Owner: -1}
}
