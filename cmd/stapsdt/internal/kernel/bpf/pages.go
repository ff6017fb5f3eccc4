//go:build linux

package bpf

import "github.com/cilium/ebpf/asm"

// maxAttempts is the maximum number of restarts of a section, each for memory that was not resident
// before.
const maxAttempts = 8

// pages is a place in a section that begins again when the kernel has fetched the memory at the
// address in R9.
type pages struct {
	label string
	// next also fetches the following page, for strings. Other reads have at most 16 bytes.
	next bool
	// record means that regRecord is a record of a ring buffer.
	record bool
}

// orFetch lets the section begin again if R0 is negative because the memory at the address on the
// stack could not be read, as long as this may help. Until then, the section must have changed
// nothing but its own stack and record.
func (b *builder) orFetch(addr int16, next bool) {
	b.sleep = true
	if !b.env.Kernel.Sleepable {
		return
	}
	b.restarts = true
	p := pages{next: next, record: b.reserved}
	for _, other := range b.absent {
		if p.label = other.label; p == other {
			break
		}
		p.label = ""
	}
	if p.label == "" {
		p.label = b.fresh("fetch")
		b.absent = append(b.absent, p)
	}
	read := b.fresh("read")
	b.add(
		asm.JSGE.Imm(asm.R0, 0, read),
		asm.LoadMem(asm.R1, asm.RFP, b.attempt, asm.DWord),
		asm.JGE.Imm(asm.R1, maxAttempts, read),
		asm.LoadMem(asm.R9, asm.RFP, addr, asm.DWord),
	)
	b.jump(p.label)
	b.label(read)
}

// now leaves the time of the event in regTime. It is the time of the first call, even if the
// section begins again.
func (b *builder) now() {
	known := b.fresh("time")
	if b.env.Kernel.Sleepable {
		b.restarts = true
		b.add(asm.JNE.Imm(regTime, 0, known))
	}
	b.add(asm.FnKtimeGetNs.Call(), asm.Mov.Reg(regTime, asm.R0))
	b.label(known)
}

// beginAttempts inserts the code before the first attempt, and labelAgain. Between attempts, only
// registers keep their values: regContext, regTime, and R9, which counts.
func (b *builder) beginAttempts() {
	if !b.restarts {
		return
	}
	rest := b.ins[b.first:]
	b.ins = append(append(asm.Instructions{}, b.ins[:b.first]...),
		asm.Mov.Imm(regTime, 0),
		asm.Mov.Imm(asm.R9, 0),
		asm.StoreMem(asm.RFP, b.attempt, asm.R9, asm.DWord).WithSymbol(labelAgain),
	)
	b.ins = append(b.ins, rest...)
}

// endAttempts emits the code that fetches memory before the section begins again: the kernel
// fetches a page when a byte of it is read. Meanwhile another thread may use the stack.
func (b *builder) endAttempts() {
	p := b.env.Kernel.Preemption
	for _, f := range b.absent {
		b.label(f.label)
		if f.record {
			b.add(
				asm.Mov.Reg(asm.R1, regRecord), asm.Mov.Imm(asm.R2, 0), asm.FnRingbufDiscard.Call(),
			)
		}
		b.add(asm.LoadMem(asm.R7, asm.RFP, b.attempt, asm.DWord), asm.Add.Imm(asm.R7, 1))
		b.add(p.call(p.Enable)...)
		for _, second := range []bool{false, true} {
			b.stack(asm.R1, b.word)
			b.add(asm.Mov.Imm(asm.R2, 1), asm.Mov.Reg(asm.R3, asm.R9))
			switch {
			case second && f.next:
				b.add(asm.Or.Imm(asm.R3, page-1), asm.Add.Imm(asm.R3, 1))
			case second:
				b.add(asm.Add.Imm(asm.R3, 15))
			}
			b.add(asm.FnCopyFromUser.Call())
		}
		b.add(p.call(p.Disable)...)
		b.add(asm.Mov.Reg(asm.R9, asm.R7))
		b.jump(labelAgain)
	}
}
