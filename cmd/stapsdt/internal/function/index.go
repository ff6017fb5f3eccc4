package function

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/gotable"

// maxIndexed is the maximum number of functions, and of inlined calls, that are compared with patterns. The largest programs have
// some hundred thousand.
const maxIndexed = 1 << 21

// inlinedCall is a call of callee in caller that the compiler has replaced by the code of callee.
type inlinedCall struct{ callee, caller string }

// functions returns the functions of the table.
func (p *Program) functions() []gotable.Function {
	if p.allFunctions == nil {
		p.table.Functions(p.release, func(f gotable.Function) bool {
			p.allFunctions = append(p.allFunctions, f)
			return len(p.allFunctions) < maxIndexed
		})
	}
	return p.allFunctions
}

// inlinedCalls returns the inlined calls, some of them more than once.
func (p *Program) inlinedCalls() []inlinedCall {
	if p.allInlined == nil {
		p.table.Inlined(func(callee, caller string) {
			if len(p.allInlined) < maxIndexed {
				p.allInlined = append(p.allInlined, inlinedCall{callee, caller})
			}
		})
	}
	return p.allInlined
}
