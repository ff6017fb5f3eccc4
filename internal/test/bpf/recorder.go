//go:build linux && (amd64 || arm64)

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"
)

// MaxText is how many bytes a recorder reads of a string.
const MaxText = 4096

// An event is a record of 64 words, so that a word of it is found by an index of six bits: cookie, process and thread,
// the error of reading the stack, pt_regs, and the stack. A text is a record of its number, the error of reading it, and
// its bytes.
const (
	eventWords = 64
	regsWord   = 3
	textHeader = 16
	maxTexts   = 12
	ringSize   = 1 << 20
)

// text tells the program to read a text of an event: the word of the event that is its address, and its size. It is not
// read where size is 0.
type text struct{ Word, Size uint32 }

// Event is what was seen of a hit.
type Event struct {
	Cookie uint64
	PID    int
	// Texts are the bytes at the arguments that Expect was given, in its order.
	Texts [][]byte

	record []byte
}

// Arg returns the value of an argument as a tracer shows it: read from the register or the stack, cut to its size, and extended to
// 64 bits by its sign.
func (e Event) Arg(a sdt.Arg) (uint64, error) {
	word, err := eventWord(a)
	if err != nil {
		return 0, err
	}
	return tracetest.Extend(a, binary.NativeEndian.Uint64(e.record[8*word:])), nil
}

// Recorder records what a hit finds in registers and memory.
type Recorder struct {
	program
	texts, ring *ebpf.Map
	reader      *ringbuf.Reader
	expected    [maxTexts]text
	record      ringbuf.Record
}

// NewRecorder makes a recorder. It is for one goroutine.
func NewRecorder() (r *Recorder, err error) {
	r = new(Recorder)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.texts, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "texts", Type: ebpf.Array, KeySize: 4, ValueSize: 8 * maxTexts, MaxEntries: 1,
	}); err != nil {
		return r, fmt.Errorf("texts: %w", err)
	}
	if r.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: ringSize}); err != nil {
		return r, fmt.Errorf("events: %w", err)
	}
	insns, err := r.instructions()
	if err != nil {
		return r, err
	}
	if err = r.load("recorder", insns); err != nil {
		return r, err
	}
	r.reader, err = ringbuf.NewReader(r.ring)
	return r, err
}

// stackAt is the first word of the stack in an event.
func stackAt() int { return regsWord + len(ptRegs) }

// instructions writes an event and its texts. A ring that is full drops them; then the reader waits in vain.
func (r *Recorder) instructions() (asm.Instructions, error) {
	sp, err := loadRegister(asm.R3, stackPointer)
	if err != nil {
		return nil, err
	}
	insns := asm.Instructions{asm.Mov.Reg(regContext, asm.R1)}
	insns = append(insns, reserve(r.ring, 8*eventWords)...)
	insns = append(insns,
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Reg(regA, asm.R0),
		asm.Mov.Reg(asm.R1, regContext),
		asm.FnGetAttachCookie.Call(),
		asm.StoreMem(regA, 0, asm.R0, asm.DWord),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(regA, 8, asm.R0, asm.DWord),
	)
	for i := range ptRegs {
		insns = append(insns,
			asm.LoadMem(asm.R1, regContext, int16(8*i), asm.DWord),
			asm.StoreMem(regA, int16(8*(regsWord+i)), asm.R1, asm.DWord))
	}
	insns = append(insns,
		asm.Mov.Reg(asm.R1, regA),
		asm.Add.Imm(asm.R1, int32(8*stackAt())),
		asm.Mov.Imm(asm.R2, int32(8*(eventWords-stackAt()))),
		sp,
		asm.FnCopyFromUser.Call(),
		asm.StoreMem(regA, 16, asm.R0, asm.DWord),
		asm.StoreImm(asm.RFP, stackKey, 0, asm.Word),
	)
	insns = append(insns, lookup(r.texts)...)
	insns = append(insns,
		asm.JEq.Imm(asm.R0, 0, "submit"),
		asm.Mov.Reg(regB, asm.R0))
	for i := range maxTexts {
		insns = append(insns, r.readText(i)...)
	}
	end := submit(regA)
	end[0] = end[0].WithSymbol("submit")
	insns = append(insns, end...)
	return append(insns,
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	), nil
}

// readText writes the i-th text that regB, a value of the texts, asks for. The verifier wants to see that the index and
// the size are within the records.
func (r *Recorder) readText(i int) asm.Instructions {
	next, fits := fmt.Sprint("text", i), fmt.Sprint("fits", i)
	word, size := int16(8*i), int16(8*i+4)
	insns := asm.Instructions{
		asm.LoadMem(asm.R1, regB, size, asm.Word),
		asm.JEq.Imm(asm.R1, 0, next),
	}
	insns = append(insns, reserve(r.ring, textHeader+MaxText)...)
	insns = append(insns,
		asm.JEq.Imm(asm.R0, 0, next),
		asm.Mov.Reg(regC, asm.R0),
		asm.Mov.Imm(asm.R1, int32(i)),
		asm.StoreMem(regC, 0, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, regB, word, asm.Word),
		asm.And.Imm(asm.R1, eventWords-1),
		asm.LSh.Imm(asm.R1, 3),
		asm.Mov.Reg(asm.R3, regA),
		asm.Add.Reg(asm.R3, asm.R1),
		asm.LoadMem(asm.R3, asm.R3, 0, asm.DWord),
		asm.Mov.Reg(asm.R1, regC),
		asm.Add.Imm(asm.R1, textHeader),
		asm.LoadMem(asm.R2, regB, size, asm.Word),
		asm.JLE.Imm(asm.R2, MaxText, fits),
		asm.Mov.Imm(asm.R2, MaxText),
		asm.FnCopyFromUser.Call().WithSymbol(fits),
		asm.StoreMem(regC, 8, asm.R0, asm.DWord),
	)
	insns = append(insns, submit(regC)...)
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(next))
}

// Text is an argument that is the address of bytes.
type Text struct {
	Arg  sdt.Arg
	Size int
}

// Expect says which bytes the next events are to be recorded with.
func (r *Recorder) Expect(texts ...Text) error {
	var expected [maxTexts]text
	for i, t := range texts {
		word, err := eventWord(t.Arg)
		if err != nil {
			return err
		}
		if t.Size < 1 || t.Size > MaxText {
			return fmt.Errorf("text of %d bytes", t.Size)
		}
		expected[i] = text{uint32(word), uint32(t.Size)}
	}
	if expected == r.expected {
		return nil
	}
	r.expected = expected
	return r.texts.Put(uint32(0), expected)
}

// eventWord returns which word of an event begins with an argument.
func eventWord(a sdt.Arg) (int, error) {
	if a.Err != nil {
		return 0, a.Err
	}
	o := a.Operand
	if o.Kind == sdt.OperandRegister {
		at := slices.Index(ptRegs, o.Base.Full)
		if at < 0 || o.Base.Full == "" {
			return 0, fmt.Errorf("%v: no such register", a)
		}
		return regsWord + at, nil
	}
	word := stackAt() + int(o.Displacement/8)
	if o.Kind != sdt.OperandMemory || o.Base.Name != stackPointer || o.Index.Name != "" || o.Displacement < 0 || o.Displacement%8 != 0 || word >= eventWords {
		return 0, fmt.Errorf("%v is no word of the stack that is recorded", a)
	}
	return word, nil
}

// Read returns the next event, and its texts. What was fired before is there: nothing waits unless it is missing, in which
// case the error is os.ErrDeadlineExceeded.
func (r *Recorder) Read(timeout time.Duration) (Event, error) {
	var e Event
	r.reader.SetDeadline(time.Now().Add(timeout))
	raw, err := r.next(8 * eventWords)
	if err != nil {
		return e, err
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(raw[8*i:]) }
	if code := int64(word(2)); code != 0 {
		return e, fmt.Errorf("the stack could not be read: error %d", code)
	}
	e.Cookie, e.PID, e.record = word(0), int(word(1)>>32), raw
	for i, t := range r.expected {
		if t.Size == 0 {
			break
		}
		raw, err := r.next(textHeader + MaxText)
		if err != nil {
			return e, fmt.Errorf("text %d: %w", i, err)
		}
		number, code := binary.NativeEndian.Uint64(raw), int64(binary.NativeEndian.Uint64(raw[8:]))
		if number != uint64(i) || code != 0 {
			return e, fmt.Errorf("text %d (found %d) could not be read: error %d", i, number, code)
		}
		e.Texts = append(e.Texts, raw[textHeader:textHeader+t.Size])
	}
	return e, nil
}

// next returns a copy of the next record, which must be of this size.
func (r *Recorder) next(size int) ([]byte, error) {
	if err := r.reader.ReadInto(&r.record); err != nil {
		return nil, err
	}
	if len(r.record.RawSample) != size {
		return nil, fmt.Errorf("record of %d bytes, not %d", len(r.record.RawSample), size)
	}
	return bytes.Clone(r.record.RawSample), nil
}

// Unread returns how many bytes of events are still unread.
func (r *Recorder) Unread() int { return r.reader.AvailableBytes() }

// Close frees the recorder. Links must have been closed before.
func (r *Recorder) Close() error {
	var errs []error
	if r.reader != nil {
		errs = append(errs, r.reader.Close())
	}
	// A nil Program or Map can be closed too.
	return errors.Join(append(errs, r.prog.Close(), r.ring.Close(), r.texts.Close())...)
}
