//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
)

// failed is the name of the variable that tells whether a function has returned an error. A result
// of this name hides it.
const failed = "failed"

// IsError reports whether an argument is a result of the type error.
func (p *Probe) IsError(i int) bool {
	a := &p.Args[i]
	return p.Function != nil && p.Function.Return && a.Dynamic && a.Type.Name == "error"
}

// addFailed adds the variable failed to a return. It is false if the function has no result of the
// type error.
func (p *Probe) addFailed(v *variables) {
	if p.Function != nil && p.Function.Return && p.ArgsErr == nil {
		v.add(failed, expr.Type{Kind: expr.Bool, Size: 1}, origin{kind: fromFailed})
	}
}

// hasFailed leaves a word in R0 that is 0 if all results of the type error are nil.
func (b *builder) hasFailed(unreadable string) error {
	done := b.fresh("failed")
	b.add(asm.Mov.Imm(asm.R0, 0))
	for i := range b.probe.Args {
		if !b.probe.IsError(i) {
			continue
		}
		a := &b.probe.Args[i]
		if err := b.operand(a.Operand, *a, unreadable); err != nil {
			return err
		}
		b.add(asm.JNE.Imm(asm.R0, 0, done))
	}
	b.label(done)
	return nil
}
