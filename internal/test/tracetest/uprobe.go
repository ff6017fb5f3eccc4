//go:build linux

package tracetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uprobePMU has the number of the kernel's uprobe PMU.
const uprobePMU = "/sys/bus/event_source/devices/uprobe/type"

// Counter counts how often a site was reached.
type Counter struct {
	fds []int // one for each processor, or one for a thread
}

// CountUprobe attaches a counter to the instruction at a file offset, in every process that maps the file or will. It needs
// root and Linux 4.17.
func CountUprobe(path string, offset uint64) (*Counter, error) {
	// The kernel has no event for all processes and all processors at once.
	c := &Counter{}
	processors, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	if err == nil && len(processors) == 0 {
		err = errors.New("/sys lists no processors")
	}
	for _, p := range processors {
		var processor int
		if _, err = fmt.Sscanf(filepath.Base(p), "cpu%d", &processor); err != nil {
			break
		}
		if err = c.open(path, offset, -1, processor, unix.PerfEventAttr{}); errors.Is(err, unix.ENODEV) {
			err = nil // the processor is offline
		} else if err != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// open adds the event of a thread, or of a processor if the thread is -1. The event is like attr.
func (c *Counter) open(path string, offset uint64, thread, processor int, attr unix.PerfEventAttr) error {
	kind, err := os.ReadFile(uprobePMU)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(strings.TrimSpace(string(kind)), 10, 32)
	if err != nil {
		return fmt.Errorf("%s: %w", uprobePMU, err)
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	// SAFETY: Ext1 is an address that the kernel reads a string from, once, within perf_event_open. The bytes are Go's; the
	// pin keeps them in place and alive until this function returns, after the call.
	var pin runtime.Pinner
	pin.Pin(name)
	defer pin.Unpin()
	attr.Type, attr.Size = uint32(number), uint32(unsafe.Sizeof(attr))
	attr.Ext1, attr.Ext2 = uint64(uintptr(unsafe.Pointer(name))), offset
	fd, err := unix.PerfEventOpen(&attr, thread, processor, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("perf_event_open of uprobe %s+%#x (thread %d, processor %d): %w", path, offset, thread, processor, err)
	}
	c.fds = append(c.fds, fd)
	return nil
}

// Count returns how many hits there were since the attachment.
func (c *Counter) Count() (hits uint64, err error) {
	for _, fd := range c.fds {
		var word [8]byte
		if _, err := unix.Read(fd, word[:]); err != nil {
			return 0, fmt.Errorf("read uprobe counter: %w", err)
		}
		hits += binary.NativeEndian.Uint64(word[:])
	}
	return hits, nil
}

// Close detaches. When it returns, the sites that nothing else traces are nops again. It may be called twice.
func (c *Counter) Close() error {
	var errs []error
	for _, fd := range c.fds {
		errs = append(errs, unix.Close(fd))
	}
	c.fds = nil
	return errors.Join(errs...)
}
