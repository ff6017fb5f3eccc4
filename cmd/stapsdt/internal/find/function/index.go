package function

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"

const (
	// maxIndexed is the maximum number of functions, and of inlined calls, that are compared with
	// patterns. The largest programs have some hundred thousand.
	maxIndexed = 1 << 21
	// maxText is the maximum number of bytes of the names of functions.
	maxText = 256 << 20
)

// inlinedCall is a call of callee in caller that the compiler has replaced by the code of callee.
type inlinedCall struct{ callee, caller string }

// functions returns the functions of the table.
func (p *Program) functions() []gotable.Function {
	if p.allFunctions == nil {
		names := 0
		p.table.Functions(p.release, func(f gotable.Function) bool {
			p.allFunctions = append(p.allFunctions, f)
			names += len(f.Name)
			return len(p.allFunctions) < maxIndexed && names < maxText
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
