//go:build linux

package tracetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/sdt"

	"golang.org/x/sys/unix"
)

// sampledStack is how many bytes of stack a sample has, which is enough for the operands of any image.
const sampledStack = 256

// ringSize is how many bytes of samples the kernel keeps until they are read: a power of two of whole pages.
const ringSize = 512 << 10

// registers are the names of the registers in a sample, in the order of the kernel's perf_regs, and "" for those that are no
// operands. They follow arch/x86/include/uapi/asm/perf_regs.h, where the segments that a 64-bit kernel refuses (12 to 15) are left out
// of registerMask, and arch/arm64/include/uapi/asm/perf_regs.h.
var registers, registerMask = func() (names []string, mask uint64) {
	if runtime.GOARCH == "amd64" {
		return []string{"%rax", "%rbx", "%rcx", "%rdx", "%rsi", "%rdi", "%rbp", "%rsp", "", "", "", "",
			"%r8", "%r9", "%r10", "%r11", "%r12", "%r13", "%r14", "%r15"}, (1<<24 - 1) &^ (0xf << 12)
	}
	for i := range 31 {
		names = append(names, fmt.Sprint("x", i))
	}
	return append(names, "sp", ""), 1<<33 - 1
}()

// Uprobe is a counter of a thread's hits that also samples: each hit leaves a [Sample]. Read is for one goroutine.
type Uprobe struct {
	Counter
	memory []byte // a page of control, and the ring
	tail   uint64
}

// AttachUprobe attaches to the instruction at a file offset and samples every hit by a thread of this process. It patches the
// site for all threads of the process. It needs root and Linux 4.17, on amd64 or arm64.
func AttachUprobe(path string, offset uint64, thread int) (*Uprobe, error) {
	u := &Uprobe{}
	err := u.open(path, offset, thread, -1, unix.PerfEventAttr{
		Sample:            1, // every hit
		Wakeup:            1,
		Bits:              unix.PerfBitDisabled, // until the ring is mapped, so that no hit is counted without its sample
		Sample_type:       unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER,
		Sample_regs_user:  registerMask,
		Sample_stack_user: sampledStack,
	})
	if err != nil {
		return nil, err
	}
	u.memory, err = unix.Mmap(u.fds[0], 0, os.Getpagesize()+ringSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		err = unix.IoctlSetInt(u.fds[0], unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("enable uprobe: %w", err), u.Close())
	}
	return u, nil
}

// Close detaches, as [Counter.Close] does. Samples that were not read are gone.
func (u *Uprobe) Close() (err error) {
	// The ring first: a mapping keeps its event alive, and the site patched, after the descriptor is closed.
	if u.memory != nil {
		err = unix.Munmap(u.memory)
		u.memory = nil
	}
	return errors.Join(err, u.Counter.Close())
}

// Read returns the oldest sample that was not read yet, and waits for one if there is none. It returns
// os.ErrDeadlineExceeded when the timeout passes, and an error when a sample was lost because the ring was full.
func (u *Uprobe) Read(timeout time.Duration) (Sample, error) {
	if u.memory == nil {
		return Sample{}, os.ErrClosed
	}
	// SAFETY: the mapping begins with a perf_event_mmap_page, and is unmapped by Close only.
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&u.memory[0]))
	for deadline := time.Now().Add(timeout); atomic.LoadUint64(&page.Data_head) == u.tail; {
		left := time.Until(deadline)
		if left <= 0 {
			return Sample{}, fmt.Errorf("no sample for %v: %w", timeout, os.ErrDeadlineExceeded)
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(u.fds[0]), Events: unix.POLLIN}}, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return Sample{}, fmt.Errorf("poll uprobe: %w", err)
		}
	}
	ring := u.memory[os.Getpagesize():]
	read := func(size int) []byte { // of a record, which may go on at the beginning of the ring
		b := make([]byte, size)
		n := copy(b, ring[u.tail%ringSize:])
		copy(b[n:], ring)
		return b
	}
	header := read(8)
	record := read(int(binary.NativeEndian.Uint16(header[6:])))
	u.tail += uint64(len(record))
	atomic.StoreUint64(&page.Data_tail, u.tail) // the kernel may write there again
	if kind := binary.NativeEndian.Uint32(header); kind != unix.PERF_RECORD_SAMPLE {
		return Sample{}, fmt.Errorf("a record of kind %d is no sample", kind)
	}
	return newSample(record[8:])
}

// Sample is what a thread found in registers and on the stack at a site.
type Sample struct {
	PID, TID  int
	registers []uint64 // in the order of their names
	stack     []byte   // from the stack pointer upwards
}

// newSample decodes a sample: process and thread, the registers after the number of their ABI, and the stack between its size and
// what of it the kernel could read.
func newSample(record []byte) (Sample, error) {
	words := make([]uint64, len(record)/8)
	for i := range words {
		words[i] = binary.NativeEndian.Uint64(record[8*i:])
	}
	stackAt := 2 + len(registers)
	if len(words) != stackAt+1+sampledStack/8+1 || words[1] == 0 || words[stackAt] != sampledStack {
		return Sample{}, fmt.Errorf("a sample without registers or a stack: %x", words)
	}
	stack := record[8*(stackAt+1):]
	return Sample{
		PID:       int(binary.NativeEndian.Uint32(record)),
		TID:       int(binary.NativeEndian.Uint32(record[4:])),
		registers: words[2:stackAt],
		stack:     stack[:min(words[len(words)-1], sampledStack)],
	}, nil
}

// Arg returns the value of an argument as a tracer shows it: read from the register or the stack, cut to its size, and
// extended to 64 bits by its sign.
func (s Sample) Arg(a sdt.Arg) (uint64, error) {
	at := slices.Index(registers, a.Operand.Base.Full)
	switch {
	case a.Err != nil:
		return 0, a.Err
	case at < 0 || a.Operand.Symbol != "" || a.Operand.Index.Name != "" || a.Operand.Base.Shift != 0:
		return 0, fmt.Errorf("%v is neither a register nor memory at one", a)
	case a.Operand.Kind == sdt.OperandRegister:
		return Extend(a, s.registers[at]), nil
	}
	sp := s.registers[slices.IndexFunc(registers, func(name string) bool { return name == "%rsp" || name == "sp" })]
	from := s.registers[at] + uint64(a.Operand.Displacement) - sp
	if from > uint64(len(s.stack))-8 {
		return 0, fmt.Errorf("%v is not in the %d bytes of stack", a, len(s.stack))
	}
	// Both architectures are little-endian, so the argument is in the low bytes.
	return Extend(a, binary.LittleEndian.Uint64(s.stack[from:])), nil
}

// Extend cuts a word to the argument's size, and extends it to 64 bits again, by its sign if it is signed.
func Extend(a sdt.Arg, word uint64) uint64 {
	shift := 64 - 8*a.Size
	if a.Signed {
		return uint64(int64(word<<shift) >> shift)
	}
	return word << shift >> shift
}
