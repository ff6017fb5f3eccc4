package expr

import (
	"go/ast"
	"slices"
)

// Names returns the names of variables that expressions use, each once, with the dots and indexes
// of the parts of values. The names of constants are among them. An expression that is wrong has no
// names.
func Names(exprs ...string) (names []string) {
	for _, src := range exprs {
		c := &checker{src: src}
		tree, err := c.parse()
		if err != nil {
			continue
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, arg := range call.Args {
					names = append(names, Names(c.src[c.offset(arg.Pos()):c.offset(arg.End())])...)
				}
				return false
			}
			part, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			path, ok := dotted(part)
			if ident, isName := n.(*ast.Ident); isName && c.isDuration(ident) {
				return false
			}
			if _, isUnit := units[path]; ok && !isUnit {
				names = append(names, path)
			}
			return !ok
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isDuration reports whether an identifier stands for a duration.
func (c *checker) isDuration(e *ast.Ident) bool {
	_, is := c.durations[c.offset(e.Pos())]
	return is
}
