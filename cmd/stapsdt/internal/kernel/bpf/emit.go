//go:build linux

package bpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// code collects instructions. A label is the name of the next instruction.
type code struct {
	ins     asm.Instructions
	labels  int
	pending []string
	alias   map[string]string // maps a label to the first label of its instruction
}

// add appends instructions.
func (c *code) add(ins ...asm.Instruction) {
	for _, i := range ins {
		if len(c.pending) > 0 {
			first := c.pending[0]
			for _, other := range c.pending[1:] {
				c.alias[other] = first
			}
			i = i.WithSymbol(first)
			c.pending = nil
		}
		c.ins = append(c.ins, i)
	}
}

// label gives a name to the next instruction.
func (c *code) label(name string) { c.pending = append(c.pending, name) }

// fresh returns a new name for a label.
func (c *code) fresh(what string) string {
	c.labels++
	return fmt.Sprintf("%s%d", what, c.labels)
}

// jump emits an unconditional jump.
func (c *code) jump(label string) { c.add(asm.Ja.Label(label)) }

// constant loads a constant.
func (c *code) constant(to asm.Register, v int64) {
	if int64(int32(v)) == v {
		c.add(asm.Mov.Imm(to, int32(v)))
	} else {
		c.add(asm.LoadImm(to, v, asm.DWord))
	}
}

// stack loads the address of a stack offset.
func (c *code) stack(to asm.Register, offset int16) {
	c.add(asm.Mov.Reg(to, asm.RFP), asm.Add.Imm(to, int32(offset)))
}

// finish returns the program without unreachable instructions, which the verifier refuses, and
// without jumps to the next instruction.
func (c *code) finish() (asm.Instructions, error) {
	if len(c.pending) > 0 {
		return nil, fmt.Errorf("no instruction at %q", c.pending)
	}
	for i := range c.ins {
		if to, ok := c.alias[c.ins[i].Reference()]; ok {
			c.ins[i] = c.ins[i].WithReference(to)
		}
	}
	for {
		before := len(c.ins)
		c.removeUnreachable()
		c.removeJumps()
		if len(c.ins) == before {
			return c.ins, nil
		}
	}
}

func isJump(i asm.Instruction) bool {
	return i.OpCode.Class() == asm.JumpClass && i.OpCode.JumpOp() != asm.Call &&
		i.OpCode.JumpOp() != asm.Exit
}

func isExit(i asm.Instruction) bool {
	return i.OpCode.Class() == asm.JumpClass && i.OpCode.JumpOp() == asm.Exit
}

// firstState is the state in which walk visits the first instruction.
const firstState = 1

// walk visits each reachable instruction once, in a state. visit returns the state of the
// instructions that follow it. It is an error if an instruction is reached in two states.
func walk(ins asm.Instructions, visit func(i, state int) (after int, err error)) error {
	at := map[string]int{}
	for i, in := range ins {
		if s := in.Symbol(); s != "" {
			at[s] = i
		}
	}
	states := make([]int, len(ins))
	type place struct{ at, state int }
	for work := []place{{0, firstState}}; len(work) > 0; {
		i, state := work[len(work)-1].at, work[len(work)-1].state
		work = work[:len(work)-1]
		if i >= len(ins) || states[i] == state {
			continue
		}
		if states[i] != 0 {
			return fmt.Errorf("instruction %d is reached in two states", i)
		}
		states[i] = state
		after, err := visit(i, state)
		if err != nil {
			return err
		}
		if isExit(ins[i]) {
			continue
		}
		if to, ok := at[ins[i].Reference()]; ok && isJump(ins[i]) {
			work = append(work, place{to, after})
		}
		if ins[i].OpCode.Class() != asm.JumpClass || ins[i].OpCode.JumpOp() != asm.Ja {
			work = append(work, place{i + 1, after})
		}
	}
	return nil
}

func (c *code) removeUnreachable() {
	var reached []int
	_ = walk(c.ins, func(i, state int) (int, error) {
		reached = append(reached, i)
		return state, nil
	})
	slices.Sort(reached)
	kept := make(asm.Instructions, 0, len(reached))
	for _, i := range reached {
		kept = append(kept, c.ins[i])
	}
	c.ins = kept
}

// removeJumps removes jumps to the next instruction that are not jump targets themselves.
func (c *code) removeJumps() {
	var kept asm.Instructions
	for i, ins := range c.ins {
		toNext := isJump(ins) && ins.OpCode.JumpOp() == asm.Ja && ins.Symbol() == "" &&
			i+1 < len(c.ins) && c.ins[i+1].Symbol() == ins.Reference()
		if !toNext {
			kept = append(kept, ins)
		}
	}
	c.ins = slices.Clip(kept)
}
