//go:build linux

package bpf

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf/asm"
)

// argument loads an argument into R0 and extends it to 64 bits according to its sign. The bits of a
// float are not changed.
func (b *builder) argument(i int, unreadable string) error {
	a := *b.probe.arg(i)
	if a.Err != nil {
		return fmt.Errorf("argument %d cannot be read: %w", i, a.Err)
	}
	load := b.operand
	if a.InPlace {
		load = b.inPlace
	}
	if err := load(a.Operand, a, unreadable); err != nil {
		return fmt.Errorf("argument %d %w", i, err)
	}
	if a.Dynamic {
		b.dynamicType(a, unreadable)
	}
	if a.Ext != nil {
		if err := b.moment(a, unreadable); err != nil {
			return fmt.Errorf("argument %d %w", i, err)
		}
	}
	b.extend(a.Size, a.Signed && !a.Float)
	return nil
}

// operand loads an operand of an argument into R0.
func (b *builder) operand(o sdt.Operand, a Arg, unreadable string) error {
	if a.Pointer != nil && o.Kind == sdt.OperandMemory {
		if err := b.pointee(o, a, unreadable); err != nil {
			return err
		}
		b.readWord(int32(a.Size), unreadable)
		return nil
	}
	switch o.Kind {
	case sdt.OperandConstant:
		if o.Symbol != "" {
			b.add(asm.LoadMem(asm.R0, regContext, ipOffset, asm.DWord))
			b.constant(asm.R1, a.Delta+o.Displacement)
			b.add(asm.Add.Reg(asm.R0, asm.R1))
		} else {
			b.constant(asm.R0, o.Displacement)
		}
	case sdt.OperandRegister:
		if err := b.register(asm.R0, o.Base); err != nil {
			return fmt.Errorf("cannot be read: %w", err)
		}
		if o.Base.Shift > 0 {
			b.add(asm.RSh.Imm(asm.R0, int32(o.Base.Shift)))
		}
	case sdt.OperandMemory:
		if err := b.address(o, a.Delta); err != nil {
			return fmt.Errorf("cannot be read: %w", err)
		}
		b.readWord(int32(a.Size), unreadable)
	default:
		return fmt.Errorf("is in the register %s, which the kernel does not show", o.Text)
	}
	return nil
}

// inPlace loads the address of an operand in memory into R0.
func (b *builder) inPlace(o sdt.Operand, a Arg, unreadable string) error {
	if a.Pointer != nil {
		if err := b.pointee(o, a, unreadable); err != nil {
			return err
		}
	} else if err := b.address(o, a.Delta); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	b.add(asm.Mov.Reg(asm.R0, asm.R3))
	return nil
}

// pointee leaves the address of the operand to which a pointer leads in R3. A nil pointer makes it
// unreadable.
func (b *builder) pointee(o sdt.Operand, a Arg, unreadable string) error {
	if err := b.operand(*a.Pointer, Arg{Arg: sdt.Arg{Size: 8}}, unreadable); err != nil {
		return err
	}
	b.add(asm.JEq.Imm(asm.R0, 0, unreadable))
	b.constant(asm.R3, o.Displacement)
	b.add(asm.Add.Reg(asm.R3, asm.R0))
	return nil
}

// extend truncates R0 to a size and extends it.
func (b *builder) extend(size int, signed bool) {
	shift := int32(64 - 8*size)
	if shift <= 0 || size == 0 {
		return
	}
	b.add(asm.LSh.Imm(asm.R0, shift))
	if signed {
		b.add(asm.ArSh.Imm(asm.R0, shift))
	} else {
		b.add(asm.RSh.Imm(asm.R0, shift))
	}
}

// register loads the register of the traced program that contains r.
func (b *builder) register(to asm.Register, r sdt.Register) error {
	offset, ok := registers[r.Full]
	if !ok {
		return fmt.Errorf("the kernel does not show the register %s", r.Name)
	}
	b.add(asm.LoadMem(to, regContext, offset, asm.DWord))
	return nil
}

// address leaves the address of an operand in memory in R3.
func (b *builder) address(o sdt.Operand, delta int64) error {
	displacement := o.Displacement
	if o.Symbol != "" {
		b.add(asm.LoadMem(asm.R3, regContext, ipOffset, asm.DWord))
		displacement += delta
	} else {
		b.add(asm.Mov.Imm(asm.R3, 0))
	}
	if o.Base.Name != "" {
		if err := b.register(asm.R1, o.Base); err != nil {
			return err
		}
		b.add(asm.Add.Reg(asm.R3, asm.R1))
	}
	if o.Index.Name != "" {
		if err := b.register(asm.R1, o.Index); err != nil {
			return err
		}
		// A narrower register is sign-extended on ARM ("sxtw"), and zero-extended on x86.
		if o.Index.Bits == 32 {
			b.add(asm.LSh.Imm(asm.R1, 32), asm.ArSh.Imm(asm.R1, 32))
		}
		b.add(asm.Mul.Imm(asm.R1, int32(o.Scale)), asm.Add.Reg(asm.R3, asm.R1))
	}
	if displacement != 0 {
		b.constant(asm.R1, displacement)
		b.add(asm.Add.Reg(asm.R3, asm.R1))
	}
	if o.Base.Bits == 32 { // the addresses of a 32-bit program wrap around
		b.add(asm.LSh.Imm(asm.R3, 32), asm.RSh.Imm(asm.R3, 32))
	}
	return nil
}
