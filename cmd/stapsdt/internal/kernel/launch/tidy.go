//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/wire"
)

const (
	// prefix begins the name of the directory of a socket.
	prefix = "stapsdt-tracer-"
	// minAge is the minimum age of a directory that is removed: another command may be making a
	// younger one.
	minAge = time.Minute
)

// tidy removes the directories of this user's commands that were killed.
func tidy(temporary string) {
	entries, _ := os.ReadDir(temporary)
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < minAge {
			continue
		}
		if int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			continue
		}
		dir := filepath.Join(temporary, e.Name())
		sockets, _ := os.ReadDir(dir)
		for _, s := range sockets {
			if at := filepath.Join(dir, s.Name()); s.Type() == os.ModeSocket && wire.Refuses(at) {
				_ = os.Remove(at)
			}
		}
		_ = os.Remove(dir) // fails if a command listens there
	}
}
