//go:build unix

package outfile

import (
	"os"
	"syscall"
)

// ownerOf returns the user to whom a file belongs, and whether that is the user of this process.
func ownerOf(info os.FileInfo) (owner uint32, ours bool) {
	owner = info.Sys().(*syscall.Stat_t).Uid
	return owner, owner == uint32(os.Geteuid())
}
