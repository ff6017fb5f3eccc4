package sdt

import (
	"debug/elf"
	"fmt"
	"strconv"
	"sync"
)

func syntaxOf(machine elf.Machine) *syntax {
	switch machine {
	case elf.EM_X86_64:
		return amd64()
	case elf.EM_386:
		return i386()
	case elf.EM_AARCH64:
		return arm64()
	case elf.EM_ARM:
		return arm()
	case elf.EM_RISCV:
		return riscv64()
	case elf.EM_S390:
		return s390x()
	case elf.EM_PPC64:
		return ppc64le()
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

var amd64 = sync.OnceValue(func() *syntax {
	s := &syntax{registers: x86Registers(64), vectors: x86Vectors(32), address: 64, parse: parseATT}
	for i := 8; i < 16; i++ {
		r := fmt.Sprintf("%%r%d", i)
		for suffix, bits := range map[string]int{"": 64, "d": 32, "w": 16, "b": 8} {
			names(s.registers).add(r+suffix, r, bits, 0)
		}
	}
	return s
})

var i386 = sync.OnceValue(func() *syntax {
	return &syntax{registers: x86Registers(32), vectors: x86Vectors(8), address: 32, parse: parseATT}
})

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

var arm64 = sync.OnceValue(func() *syntax {
	s := &syntax{registers: names{}, vectors: names{}, zero: []string{"xzr", "wzr"}, address: 64, parse: parseBracket}
	r, v := names(s.registers), names(s.vectors)
	r.numbered("x", "x", 31, 64)
	r.numbered("w", "x", 31, 32)
	r.add("sp", "sp", 64, 0)
	r.add("wsp", "sp", 32, 0)
	for prefix, bits := range map[string]int{"v": 128, "q": 128, "d": 64, "s": 32, "h": 16, "b": 8} {
		v.numbered(prefix, "v", 32, bits)
	}
	return s
})

var arm = sync.OnceValue(func() *syntax {
	s := &syntax{registers: names{}, vectors: names{}, address: 32, parse: parseBracket}
	r, v := names(s.registers), names(s.vectors)
	r.numbered("r", "r", 13, 32)
	for name, full := range map[string]string{"sl": "r10", "fp": "r11", "ip": "r12", "sp": "sp", "r13": "sp", "lr": "lr", "r14": "lr",
		"pc": "pc", "r15": "pc"} {
		r.add(name, full, 32, 0)
	}
	v.numbered("d", "d", 32, 64)
	v.numbered("q", "q", 16, 128)
	for i := range 32 {
		v.add("s"+strconv.Itoa(i), "d"+strconv.Itoa(i/2), 32, i%2*32)
	}
	return s
})

var riscv64 = sync.OnceValue(func() *syntax {
	s := &syntax{registers: names{}, vectors: names{}, zero: []string{"zero", "x0"}, address: 64, parse: parseParen}
	r, v := names(s.registers), names(s.vectors)
	// By number, x1 to x31. x0 is always zero.
	for i, abi := range []string{"ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
		"s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"} {
		r.add(abi, abi, 64, 0)
		r.add("x"+strconv.Itoa(i+1), abi, 64, 0)
	}
	r.add("fp", "s0", 64, 0)
	for i := range 32 {
		// ft0 to ft7, fs0, fs1, fa0 to fa7, fs2 to fs11, ft8 to ft11
		var abi string
		switch {
		case i < 8:
			abi = "ft" + strconv.Itoa(i)
		case i < 10:
			abi = "fs" + strconv.Itoa(i-8)
		case i < 18:
			abi = "fa" + strconv.Itoa(i-10)
		case i < 28:
			abi = "fs" + strconv.Itoa(i-16)
		default:
			abi = "ft" + strconv.Itoa(i-20)
		}
		v.add(abi, abi, 64, 0)
		v.add("f"+strconv.Itoa(i), abi, 64, 0)
	}
	return s
})

var s390x = sync.OnceValue(func() *syntax {
	s := &syntax{registers: names{}, vectors: names{}, address: 64, indexed: true, parse: parseParen}
	names(s.registers).numbered("%r", "%r", 16, 64)
	names(s.vectors).numbered("%f", "%f", 16, 64)
	names(s.vectors).numbered("%v", "%v", 32, 128)
	return s
})

var ppc64le = sync.OnceValue(func() *syntax {
	s := &syntax{registers: names{}, vectors: names{}, address: 64, numbered: true, parse: parseParen}
	r, v := names(s.registers), names(s.vectors)
	for _, prefix := range []string{"", "r", "%r"} {
		r.numbered(prefix, "r", 32, 64)
	}
	for _, sigil := range []string{"", "%"} {
		v.numbered(sigil+"f", "f", 32, 64)
		v.numbered(sigil+"vs", "vs", 64, 128)
	}
	return s
})
