package function

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/gotable"

// maxIndexed is the maximum number of functions, and of inlined calls, that are kept for the next pattern. A program
// with more of them is read again for each pattern.
const maxIndexed = 1 << 20

// index holds the names that patterns are compared with.
type index struct {
	functions []gotable.Function
	inlined   []inlinedCall
}

// inlinedCall is a call of callee in caller that the compiler has replaced by the code of callee.
type inlinedCall struct{ callee, caller string }

// functions calls visit with each function of the table until it returns false.
func (p *Program) functions(visit func(gotable.Function) bool) {
	if p.index.functions == nil {
		p.table.Functions(p.release, func(f gotable.Function) bool {
			p.index.functions = append(p.index.functions, f)
			return len(p.index.functions) <= maxIndexed
		})
	}
	if len(p.index.functions) > maxIndexed {
		p.index.functions = nil
		p.table.Functions(p.release, visit)
		return
	}
	for _, f := range p.index.functions {
		if !visit(f) {
			return
		}
	}
}

// inlinedCalls calls visit with each inlined call, and with some calls more than once.
func (p *Program) inlinedCalls(visit func(callee, caller string)) {
	if p.index.inlined == nil {
		p.table.Inlined(func(callee, caller string) {
			if len(p.index.inlined) <= maxIndexed {
				p.index.inlined = append(p.index.inlined, inlinedCall{callee, caller})
			}
		})
	}
	if len(p.index.inlined) > maxIndexed {
		p.index.inlined = nil
		p.table.Inlined(visit)
		return
	}
	for _, c := range p.index.inlined {
		visit(c.callee, c.caller)
	}
}
