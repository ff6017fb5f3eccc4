package sdt

import (
	"debug/elf"
	"fmt"
	"strconv"
	"sync"
)

// syntaxes are the notations of the machines that are supported.
var syntaxes = map[elf.Machine]func() *syntax{
	elf.EM_X86_64: sync.OnceValue(amd64),
	elf.EM_386:    sync.OnceValue(i386), elf.EM_AARCH64: sync.OnceValue(arm64),
	elf.EM_ARM: sync.OnceValue(arm), elf.EM_RISCV: sync.OnceValue(riscv64),
	elf.EM_S390: sync.OnceValue(s390x), elf.EM_PPC64: sync.OnceValue(ppc64le),
}

// syntaxOf returns the notation of a machine, or nil if it is not supported.
func syntaxOf(machine elf.Machine) *syntax {
	if notation := syntaxes[machine]; notation != nil {
		return notation()
	}
	return nil
}

// names collects the names of registers.
type names map[string]Register

func (n names) add(name, full string, bits, shift int) {
	n[name] = Register{Name: name, Full: full, Bits: bits, Shift: shift}
}

// numbered adds count registers whose names are a prefix and a number.
func (n names) numbered(prefix, full string, count, bits int) {
	for i := range count {
		n.add(prefix+strconv.Itoa(i), full+strconv.Itoa(i), bits, 0)
	}
}

// named adds registers of 64 bits, which have numbers after a prefix too.
func (n names) named(prefix string, first int, all ...string) {
	for i, name := range all {
		n.add(name, name, 64, 0)
		n.add(prefix+strconv.Itoa(first+i), name, 64, 0)
	}
}

func amd64() *syntax {
	registers := x86Registers(64)
	for i := 8; i < 16; i++ {
		r := fmt.Sprintf("%%r%d", i)
		for suffix, bits := range map[string]int{"": 64, "d": 32, "w": 16, "b": 8} {
			registers.add(r+suffix, r, bits, 0)
		}
	}
	return &syntax{registers: registers, vectors: x86Vectors(32), address: 64, parse: parseATT}
}

func i386() *syntax {
	return &syntax{
		registers: x86Registers(32), vectors: x86Vectors(8), address: 32, parse: parseATT,
	}
}

// x86Registers returns the eight registers of 386, which are the lower halves of eight
// registers of amd64.
func x86Registers(bits int) names {
	n := names{}
	for _, r := range []string{"ax", "bx", "cx", "dx", "si", "di", "bp", "sp"} {
		full := "%e" + r
		if bits == 64 {
			full = "%r" + r
			n.add(full, full, 64, 0)
		}
		n.add("%e"+r, full, 32, 0)
		n.add("%"+r, full, 16, 0)
		switch {
		case r[1] == 'x':
			n.add("%"+r[:1]+"l", full, 8, 0)
			n.add("%"+r[:1]+"h", full, 8, 8)
		case bits == 64:
			n.add("%"+r+"l", full, 8, 0)
		}
	}
	return n
}

func x86Vectors(count int) names {
	n := names{}
	n.numbered("%xmm", "%xmm", count, 128)
	n.numbered("%ymm", "%ymm", count, 256)
	n.numbered("%zmm", "%zmm", count, 512)
	n.numbered("%mm", "%mm", 8, 64)
	n.add("%st", "%st(0)", 80, 0)
	for i := range 8 {
		name := fmt.Sprintf("%%st(%d)", i)
		n.add(name, name, 80, 0)
	}
	return n
}

func arm64() *syntax {
	r, v := names{}, names{}
	r.numbered("x", "x", 31, 64)
	r.numbered("w", "x", 31, 32)
	r.add("sp", "sp", 64, 0)
	r.add("wsp", "sp", 32, 0)
	for prefix, bits := range map[string]int{"v": 128, "q": 128, "d": 64, "s": 32, "h": 16, "b": 8} {
		v.numbered(prefix, "v", 32, bits)
	}
	return &syntax{
		registers: r, vectors: v, zero: []string{"xzr", "wzr"}, address: 64, parse: parseBracket,
	}
}

func arm() *syntax {
	r, v := names{}, names{}
	r.numbered("r", "r", 13, 32)
	for name, full := range map[string]string{
		"sl": "r10", "fp": "r11", "ip": "r12", "sp": "sp", "r13": "sp", "lr": "lr", "r14": "lr",
		"pc": "pc", "r15": "pc",
	} {
		r.add(name, full, 32, 0)
	}
	v.numbered("d", "d", 32, 64)
	v.numbered("q", "q", 16, 128)
	for i := range 32 {
		v.add("s"+strconv.Itoa(i), "d"+strconv.Itoa(i/2), 32, i%2*32)
	}
	return &syntax{registers: r, vectors: v, address: 32, parse: parseBracket}
}

func riscv64() *syntax {
	r, v := names{}, names{}
	r.named("x", 1, "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
		// x0 is always zero
		"s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6")
	r.add("fp", "s0", 64, 0)
	v.named("f", 0, "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7",
		"fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11")
	return &syntax{registers: r, vectors: v, zero: []string{"zero", "x0"}, address: 64, parse: parseParen}
}

func s390x() *syntax {
	r, v := names{}, names{}
	r.numbered("%r", "%r", 16, 64)
	v.numbered("%f", "%f", 16, 64)
	v.numbered("%v", "%v", 32, 128)
	return &syntax{registers: r, vectors: v, address: 64, indexed: true, parse: parseParen}
}

func ppc64le() *syntax {
	r, v := names{}, names{}
	for _, prefix := range []string{"", "r", "%r"} {
		r.numbered(prefix, "r", 32, 64)
	}
	for _, sigil := range []string{"", "%"} {
		v.numbered(sigil+"f", "f", 32, 64)
		v.numbered(sigil+"vs", "vs", 64, 128)
	}
	return &syntax{registers: r, vectors: v, address: 64, numbered: true, parse: parseParen}
}
