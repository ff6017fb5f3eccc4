//go:build linux

package tracetest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
)

// ReadMapped reads the memory of a process at the place where it executes a file's offset: the instruction bytes of a
// site, with whatever a tracer patched there. It fails when the process does not map that place executable.
func ReadMapped(pid int, path string, offset uint64, buf []byte) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		var (
			start, end, from, inode uint64
			perms, device           string
		)
		line := lines.Text()
		n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d", &start, &end, &perms, &from, &device, &inode)
		if n != 6 || !strings.Contains(perms, "x") || !strings.HasSuffix(line, " "+path) {
			continue
		}
		if offset < from || offset-from >= end-start {
			continue
		}
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return err
		}
		defer mem.Close()
		_, err = mem.ReadAt(buf, int64(start+offset-from))
		return err
	}
	return fmt.Errorf("process %d does not map %s+%#x executable", pid, path, offset)
}
