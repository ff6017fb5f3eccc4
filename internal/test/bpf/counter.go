//go:build linux && (amd64 || arm64)

package bpf

import (
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Arguments says what a counter adds up: all by the note of a probe, the others of whose sites must look the same.
type Arguments struct {
	Window sdt.Arg
	// Value is added up.
	Value sdt.Arg
	// Extra is added up too, and where Text is set, the eight bytes that it points to.
	Extra sdt.Arg
	Text  bool
}

// Tally is what was seen of a window. The sums are modulo 2^64.
type Tally struct {
	Count, Value, Extra uint64
	// Faults is not 0 when memory of the traced program could not be read.
	Faults uint64
}

// Add adds another tally.
func (t *Tally) Add(o Tally) {
	t.Count += o.Count
	t.Value += o.Value
	t.Extra += o.Extra
	t.Faults += o.Faults
}

// Counter counts hits by the site's cookie and a window, which is a number that the traced program passes.
type Counter struct {
	windows int
	last    int // index of what is in no window
	tallies *ebpf.Map
	program
}

// NewCounter makes a counter for cookies and windows that are below these numbers.
func NewCounter(cookies, windows int, args Arguments) (*Counter, error) {
	c := &Counter{windows: windows, last: cookies * windows}
	var err error
	c.tallies, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tallies", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 32, MaxEntries: uint32(c.last + 1),
	})
	if err != nil {
		return nil, fmt.Errorf("tallies: %w", err)
	}
	insns, err := c.instructions(args)
	if err == nil {
		err = c.load("counter", insns)
	}
	if err != nil {
		return nil, errors.Join(err, c.tallies.Close())
	}
	return c, nil
}

// instructions adds the arguments of a hit to the tally of its cookie and window. A program may be interrupted by another one
// on its processor, which is why the additions are atomic.
func (c *Counter) instructions(args Arguments) (asm.Instructions, error) {
	insns := asm.Instructions{
		asm.Mov.Reg(regContext, asm.R1),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, stackFail, asm.R1, asm.DWord),
	}
	for _, load := range []struct {
		to  asm.Register
		arg sdt.Arg
	}{{regA, args.Window}, {regB, args.Value}, {regC, args.Extra}} {
		more, err := loadArg(load.to, load.arg)
		if err != nil {
			return nil, err
		}
		insns = append(insns, more...)
	}
	if args.Text {
		insns = append(insns, asm.Mov.Reg(asm.R3, regC))
		insns = append(insns, readWord(regC)...)
	}
	last := int32(c.last)
	insns = append(insns,
		asm.Mov.Reg(asm.R1, regContext),
		asm.FnGetAttachCookie.Call(),
		// The key is cookie*windows+window where both are in range, else last.
		asm.Mov.Imm(asm.R1, last),
		asm.JGE.Imm(regA, int32(c.windows), "key"),
		asm.JGE.Imm(asm.R0, last/int32(c.windows), "key"),
		asm.Mul.Imm(asm.R0, int32(c.windows)),
		asm.Add.Reg(asm.R0, regA),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.StoreMem(asm.RFP, stackKey, asm.R1, asm.Word).WithSymbol("key"),
	)
	insns = append(insns, lookup(c.tallies)...)
	return append(insns,
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.AddAtomic.Mem(asm.R0, regB, asm.DWord, 8),
		asm.AddAtomic.Mem(asm.R0, regC, asm.DWord, 16),
		asm.LoadMem(asm.R1, asm.RFP, stackFail, asm.DWord),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 24),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	), nil
}

// Tally returns what was seen of a window at the sites of a cookie.
func (c *Counter) Tally(cookie uint64, window int) (Tally, error) {
	if window >= c.windows || int(cookie)*c.windows >= c.last {
		return Tally{}, fmt.Errorf("no window %d of cookie %d", window, cookie)
	}
	return c.at(int(cookie)*c.windows + window)
}

// Strays returns what was seen with the number of no window, which was never fired.
func (c *Counter) Strays() (Tally, error) { return c.at(c.last) }

func (c *Counter) at(index int) (Tally, error) {
	var each []Tally // a processor
	if err := c.tallies.Lookup(uint32(index), &each); err != nil {
		return Tally{}, fmt.Errorf("tally %d: %w", index, err)
	}
	var sum Tally
	for _, t := range each {
		sum.Add(t)
	}
	return sum, nil
}

// Close frees the counter. Links must have been closed before.
func (c *Counter) Close() error { return errors.Join(c.prog.Close(), c.tallies.Close()) }
