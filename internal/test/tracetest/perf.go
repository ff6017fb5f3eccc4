//go:build linux

package tracetest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	uprobePMU  = "/sys/bus/event_source/devices/uprobe/type"
	cpusOnline = "/sys/devices/system/cpu/online"
)

// settings is what the options of an attachment decide.
type settings struct {
	tid   int
	stack int
	ring  int
}

// Option changes how a uprobe is attached.
type Option func(*settings)

// WithThread attaches to one thread of one process. Only that process is patched, in all its threads, and only hits by
// that thread are counted and sampled: of a Go program, that is a goroutine locked to its thread, or nothing to rely on.
func WithThread(tid int) Option { return func(s *settings) { s.tid = tid } }

// WithStack sets how many bytes of stack a sample holds, a multiple of 8 up to 32 KiB. The default is 256, enough for
// the operands of any note that is worth writing.
func WithStack(bytes int) Option { return func(s *settings) { s.stack = bytes } }

// WithRing sets how many bytes of samples the kernel can keep for each processor until they are read, a power of two
// of whole pages. The default is 512 KiB, about a thousand samples.
func WithRing(bytes int) Option { return func(s *settings) { s.ring = bytes } }

func newSettings(opts []Option) (settings, error) {
	s := settings{tid: -1, stack: 256, ring: 512 << 10}
	for _, o := range opts {
		o(&s)
	}
	switch pages := s.ring / os.Getpagesize(); {
	case s.stack < 8 || s.stack%8 != 0 || s.stack > 32<<10:
		return s, fmt.Errorf("stack of %d bytes is not a multiple of 8 up to 32 KiB", s.stack)
	case pages < 1 || pages&(pages-1) != 0 || s.ring%os.Getpagesize() != 0:
		return s, fmt.Errorf("ring of %d bytes is not a power of two of pages", s.ring)
	}
	return s, nil
}

// perfAttr describes a uprobe event. Which kernel is old enough to lack a field does not matter here: USE_CLOCKID is
// of 4.1, and the uprobe PMU itself of 4.17.
func perfAttr(sampling bool, s settings) (unix.PerfEventAttr, error) {
	kind, err := os.ReadFile(uprobePMU)
	if err != nil {
		return unix.PerfEventAttr{}, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(kind)), 10, 32)
	if err != nil {
		return unix.PerfEventAttr{}, fmt.Errorf("%s: %w", uprobePMU, err)
	}
	attr := unix.PerfEventAttr{
		Type: uint32(n),
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		// Disabled until every ring is mapped, so that no hit of the first processor is counted without its sample.
		Bits: unix.PerfBitDisabled,
	}
	if !sampling {
		return attr, nil
	}
	attr.Sample = 1 // every hit
	attr.Wakeup = 1
	attr.Bits |= unix.PerfBitUseClockID
	attr.Clockid = unix.CLOCK_MONOTONIC
	attr.Sample_type = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_STACK_USER
	attr.Sample_stack_user = uint32(s.stack)
	if l := hostLayout(); l != nil {
		attr.Sample_type |= unix.PERF_SAMPLE_REGS_USER
		attr.Sample_regs_user = l.mask
	}
	if KernelAtLeast(6, 0) {
		attr.Read_format = unix.PERF_FORMAT_LOST
	}
	return attr, nil
}

// openUprobes opens one event for each processor, or one for the thread that s names. An event that is bound to no
// thread must be bound to a processor: the kernel has no event for all of both.
func openUprobes(path string, offset uint64, attr unix.PerfEventAttr, s settings) ([]int, error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	// SAFETY: config1 is an address that the kernel reads a string from, once, within perf_event_open. The bytes are
	// Go's; the pin keeps them in place and alive until this function returns, after the last call.
	var pin runtime.Pinner
	pin.Pin(name)
	defer pin.Unpin()
	attr.Ext1 = uint64(uintptr(unsafe.Pointer(name)))
	attr.Ext2 = offset

	cpus := []int{-1}
	if s.tid < 0 {
		if cpus, err = onlineCPUs(); err != nil {
			return nil, err
		}
	}
	var fds []int
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&attr, s.tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			closeAll(fds)
			return nil, fmt.Errorf("perf_event_open of uprobe %s+%#x (thread %d, processor %d): %w", path, offset, s.tid, cpu, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func enableAll(fds []int) error {
	for _, fd := range fds {
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return fmt.Errorf("enable uprobe: %w", err)
		}
	}
	return nil
}

func closeAll(fds []int) error {
	var errs []error
	for _, fd := range fds {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// readCounters sums what read(2) says of the events: their hits and, where the format has it, their lost samples.
func readCounters(fds []int, withLost bool) (hits, lost uint64, err error) {
	words := make([]uint64, 1, 2)
	if withLost {
		words = words[:2]
	}
	for _, fd := range fds {
		// SAFETY: the bytes are those of words, which is alive until the loop is over; read(2) fills no more than their length.
		buf := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
		n, err := unix.Read(fd, buf)
		if err != nil {
			return 0, 0, fmt.Errorf("read uprobe counter: %w", err)
		}
		if n != len(buf) {
			return 0, 0, fmt.Errorf("read uprobe counter: %d bytes of %d", n, len(buf))
		}
		hits += words[0]
		if withLost {
			lost += words[1]
		}
	}
	return hits, lost, nil
}

func onlineCPUs() ([]int, error) {
	data, err := os.ReadFile(cpusOnline)
	if err != nil {
		return nil, err
	}
	cpus, err := parseCPUs(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cpusOnline, err)
	}
	return cpus, nil
}

// parseCPUs reads the kernel's list notation: "0-1,3".
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, err
		}
		to, err := strconv.ParseUint(last, 10, 16)
		if err != nil {
			return nil, err
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	if len(cpus) == 0 {
		return nil, fmt.Errorf("%q lists no processor", list)
	}
	return cpus, nil
}
