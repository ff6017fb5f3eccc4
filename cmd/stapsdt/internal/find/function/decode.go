//go:build linux

package function

import (
	"debug/elf"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"

	"golang.org/x/arch/x86/x86asm"
)

// decoder decodes the instructions of a function for its flow.
type decoder struct {
	flow
	code   []byte
	start  uint64
	panics func(at uint64) bool // whether the function at an address never returns
	tables map[int]uint64       // the addresses of the jump tables that instructions use
	jumps  map[int][]uint64     // the offsets to which an instruction jumps
}

// newFlow decodes the instructions of a function. ok is false if they cannot be decoded.
func (p *Program) newFlow(code []byte, a *gotable.Address, work *int) (f *flow, ok bool) {
	d := &decoder{
		flow: flow{sources: map[int][]int{}, work: work},
		code: code, start: a.Entry, jumps: map[int][]uint64{},
		panics: p.panics, tables: map[int]uint64{},
	}
	decode := d.x86
	if p.file.Machine == elf.EM_AARCH64 {
		decode = d.arm64
	}
	if !decode() || len(d.steps) == 0 {
		return nil, false
	}
	d.readTables(p.table, a)
	for i, targets := range d.jumps {
		s := &d.steps[i]
		for _, at := range targets {
			if to, inside := d.at(at); inside {
				s.to, d.sources[to] = append(s.to, to), append(d.sources[to], i)
			} else {
				s.ends = true // the jump leaves the function
			}
		}
	}
	return &d.flow, true
}

// add adds an instruction.
func (d *decoder) add(at int, s step, targets ...uint64) {
	if len(targets) > 0 {
		d.jumps[len(d.steps)] = targets
	}
	d.offsets, d.steps = append(d.offsets, uint64(at)), append(d.steps, s)
}

// panics reports whether the function at an address is one that the compiler calls where the
// execution does not go on.
func (p *Program) panics(at uint64) bool {
	never, known := p.never[at]
	if known {
		return never
	}
	a, ok := p.table.At(at)
	for _, name := range []string{"runtime.panic", "runtime.gopanic", "runtime.goPanic", "runtime.throw", "runtime.block"} {
		never = never || ok && a.Entry == at && strings.HasPrefix(a.Names[len(a.Names)-1], name)
	}
	if p.never == nil || len(p.never) == maxNames {
		p.never = map[uint64]bool{}
	}
	p.never[at] = never
	return never
}

// readTables reads the jump tables. Without its table, a jump can lead anywhere.
func (d *decoder) readTables(t *gotable.Table, a *gotable.Address) {
	starts := slices.Compact(slices.Sorted(maps.Values(d.tables)))
	tables := t.JumpTables(starts, a.Entry, a.End)
	for i, at := range d.tables {
		d.steps[i].any = len(tables[at]) == 0
		for _, to := range tables[at] {
			d.jumps[i] = append(d.jumps[i], to-a.Entry)
		}
	}
}

// x86 adds the instructions.
func (d *decoder) x86() bool {
	loaded := map[x86asm.Reg]uint64{} // the addresses in registers
	for at := 0; at < len(d.code); {
		if n := vexLength(d.code[at:]); n > 0 {
			d.add(at, step{next: true, acts: true})
			at += n
			continue
		}
		inst, err := x86asm.Decode(d.code[at:], 64)
		if err != nil {
			return false
		}
		end := at + inst.Len
		s, targets := step{next: true}, []uint64(nil)
		rel, isRel := inst.Args[0].(x86asm.Rel)
		switch {
		case inst.Op == x86asm.CALL:
			s.acts = true
			s.next = !isRel || !d.panics(d.start+uint64(int64(end)+int64(rel)))
		case isRel:
			s.next, targets = inst.Op != x86asm.JMP, []uint64{uint64(int64(end) + int64(rel))}
			s.acts = s.next
		case inst.Op == x86asm.JMP:
			m, _ := inst.Args[0].(x86asm.Mem)
			s, d.tables[len(d.steps)] = step{acts: true}, loaded[m.Base]
		case inst.Op == x86asm.LEA:
			to, _ := inst.Args[0].(x86asm.Reg)
			m, _ := inst.Args[1].(x86asm.Mem)
			if m.Base == x86asm.RIP {
				loaded[to] = d.start + uint64(int64(end)+m.Disp)
			}
			s.moves = m.Base == x86asm.RIP || m.Base == x86asm.RSP // and adds nothing
		case isMove(&inst):
			s.moves = true
		case inst.Op == x86asm.RET:
			s = step{ends: true}
		case inst.Op == x86asm.UD2, inst.Op == x86asm.INT:
			s = step{}
		}
		if m, ok := inst.Args[0].(x86asm.Mem); ok && m.Base != x86asm.RSP &&
			inst.Op != x86asm.CMP && inst.Op != x86asm.TEST && inst.Op != x86asm.NOP {
			s.acts = true
		}
		d.add(at, s, targets...)
		at = end
	}
	return true
}

// isMove reports whether an instruction copies a value or sets a register to 0.
func isMove(inst *x86asm.Inst) bool {
	switch inst.Op {
	case x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.MOVUPS, x86asm.MOVSS,
		x86asm.MOVSD_XMM, x86asm.NOP:
		return true
	case x86asm.XOR:
		return inst.Args[0] == inst.Args[1]
	}
	return false
}

// arm64 adds the instructions.
func (d *decoder) arm64() bool {
	var loaded [32]uint64        // the addresses in registers
	table := map[uint32]uint64{} // the tables from which registers were loaded
	for at := 0; at+4 <= len(d.code); at += 4 {
		word := binary.LittleEndian.Uint32(d.code[at:])
		rd, rn := word&31, word>>5&31
		isStore := word&0x0a400000 == 0x08000000 && rn != 31 // not to the stack
		isBranch := word&0x1c000000 == 0x14000000
		s, targets := step{next: true, acts: isStore || isBranch}, []uint64(nil)
		jump := func(words int32) { targets = []uint64{uint64(int64(at) + 4*int64(words))} }
		switch {
		case word == retARM64:
			s = step{ends: true}
		case word&0xfffffc1f == 0xd61f0000: // BR
			s, d.tables[len(d.steps)] = step{acts: true}, table[rn]
		case word&0xfc000000 == 0x14000000: // B
			s.next = false
			jump(int32(word<<6) >> 6)
		case word&0xfc000000 == 0x94000000: // BL
			s.next = !d.panics(d.start + uint64(int64(at)+4*int64(int32(word<<6)>>6)))
		case word&0xff000000 == 0x54000000, word&0x7e000000 == 0x34000000: // B.cond, CBZ, CBNZ
			jump(int32(word<<8) >> 13)
		case word&0x7e000000 == 0x36000000: // TBZ, TBNZ
			jump(int32(word<<13) >> 18)
		case word&0x9f000000 == 0x90000000: // ADRP
			pages := int64(int32(word<<8)>>13)<<2 | int64(word>>29&3)
			loaded[rd] = (d.start+uint64(at))&^0xfff + uint64(pages<<12)
		case word&0xffc00000 == 0x91000000: // ADD with a number
			loaded[rd] = loaded[rn] + uint64(word>>10&0xfff)
		case word&0xffe0fc00 == 0xf8607800: // LDR from a table of addresses
			table[rd] = loaded[rn]
		}
		d.add(at, s, targets...)
	}
	return true
}
