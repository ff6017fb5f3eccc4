//go:build linux

package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// atSecure is AT_SECURE of linux/auxvec.h.
const atSecure = 23

// Getenv is os.Getenv, except that it returns "" in a program that gained rights when it was
// started (set-user-ID, file capabilities): the user who starts such a program must not
// control how it uses these rights. It corresponds to glibc's secure_getenv.
func Getenv(name string) string {
	if secure() {
		return ""
	}
	return os.Getenv(name)
}

// secure reports whether the program gained rights when it was started: AT_SECURE of
// getauxval(3).
func secure() bool {
	vector, err := unix.Auxv()
	if err != nil {
		return unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid()
	}
	for _, pair := range vector {
		if pair[0] == atSecure {
			return pair[1] != 0
		}
	}
	return false
}
