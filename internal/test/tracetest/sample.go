//go:build linux

package tracetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/go-stapsdt/stapsdt/sdt"
)

// Sample is what the kernel recorded when a thread reached a site.
type Sample struct {
	PID, TID int
	// Time is CLOCK_MONOTONIC, the same clock on every processor.
	Time time.Duration
	// IP is the address of the site and SP the stack pointer there. Both are 0 where the architecture's registers are
	// not known to this package.
	IP, SP uint64
	// Stack is the memory from SP upwards, as much as [WithStack] asked for and the thread's stack has.
	Stack []byte

	layout *layout
	words  []uint64
}

// Reg is the value of a register by its name in notes: "%rdi", "%eax" (its low 32 bits), "x0", "sp". It reports false
// for a name that the machine's architecture does not have.
func (s Sample) Reg(name string) (uint64, bool) {
	if s.layout == nil {
		return 0, false
	}
	r, ok := s.layout.names[name]
	if !ok {
		return 0, false
	}
	return s.layout.value(s.words, r)
}

// Arg is the value of an argument as a tracer shows it: read from the register or the stack, cut to its size, and
// extended to 64 bits by its sign. Memory outside [Sample.Stack] is an error.
func (s Sample) Arg(a sdt.Arg) (uint64, error) {
	o := a.Operand
	switch {
	case a.Err != nil:
		return 0, a.Err
	case o.Kind != sdt.OperandRegister && o.Kind != sdt.OperandMemory, o.Symbol != "", o.Index.Name != "", o.Base.Shift != 0:
		return 0, fmt.Errorf("%v is neither a register nor memory at one", a)
	}
	value, ok := s.Reg(o.Base.Name)
	if !ok {
		return 0, fmt.Errorf("%v: register %s was not sampled", a, o.Base.Name)
	}
	if o.Kind == sdt.OperandMemory {
		var err error
		if value, err = s.load(value+uint64(o.Displacement), a.Size); err != nil {
			return 0, fmt.Errorf("%v: %w", a, err)
		}
	}
	return extend(a, value), nil
}

// extend cuts a value to the argument's size and widens it again, by its sign where it is signed.
func extend(a sdt.Arg, value uint64) uint64 {
	shift := uint(64 - 8*a.Size)
	if a.Signed {
		return uint64(int64(value<<shift) >> shift)
	}
	return value << shift >> shift
}

// load reads size bytes at an address of the traced process. Both architectures are little-endian, so these are the
// low bytes of the eight that a tracer loads there.
func (s Sample) load(address uint64, size int) (uint64, error) {
	at := address - s.SP
	if address < s.SP || at > uint64(len(s.Stack)) || uint64(len(s.Stack))-at < uint64(size) {
		return 0, fmt.Errorf("address %#x is outside the %d bytes of stack at %#x", address, len(s.Stack), s.SP)
	}
	var word [8]byte
	copy(word[:], s.Stack[at:at+uint64(size)])
	return binary.LittleEndian.Uint64(word[:]), nil
}

var errShortRecord = errors.New("record is too short")

// decodeSample reads the body of a PERF_RECORD_SAMPLE of the sample type that perfAttr asks for.
func decodeSample(body []byte, l *layout) (Sample, error) {
	s := Sample{layout: l}
	r := reader{data: body}
	s.PID, s.TID = int(int32(r.uint32())), int(int32(r.uint32()))
	s.Time = time.Duration(r.uint64())
	if l != nil {
		// An ABI of 0 means that there were no user registers, and none follow.
		if abi := r.uint64(); abi != 0 {
			s.words = make([]uint64, bits.OnesCount64(l.mask))
			for i := range s.words {
				s.words[i] = r.uint64()
			}
		}
		s.IP, _ = l.value(s.words, register{l.ip, 64})
		s.SP, _ = l.value(s.words, register{l.sp, 64})
	}
	// The size that was asked for, the bytes, and then how many of them the kernel could read. The last word is not
	// there when the first is 0.
	if size := r.uint64(); size != 0 {
		stack := r.bytes(size)
		if real := r.uint64(); real <= uint64(len(stack)) {
			s.Stack = append([]byte(nil), stack[:real]...)
		}
	}
	if r.short {
		return Sample{}, errShortRecord
	}
	return s, nil
}

// reader takes a record apart. After it ran out of data it returns zeros, and short says so.
type reader struct {
	data  []byte
	short bool
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.short, r.data = true, nil
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.NativeEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}
