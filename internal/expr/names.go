package expr

import (
	"go/ast"
	"slices"
	"strings"
)

// Names returns the names of variables that expressions use, each once, with the dots and indexes
// of the parts of values. The names of constants are among them, and so are calls of functions that
// this package does not know, such as str(path). An expression that is wrong has no names.
func Names(exprs ...string) (names []string) {
	for _, src := range exprs {
		c := &checker{src: src}
		tree, err := c.parse()
		if err != nil {
			continue
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				names = append(names, c.namesOf(call)...)
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

// namesOf returns the names in a call.
func (c *checker) namesOf(call *ast.CallExpr) (names []string) {
	text := func(e ast.Expr) string { return c.src[c.offset(e.Pos()):c.offset(e.End())] }
	if path, _ := dotted(call.Fun); functions[path] == 0 {
		return []string{strings.ReplaceAll(text(call), " ", "")}
	}
	for _, arg := range call.Args {
		names = append(names, Names(text(arg))...)
	}
	return names
}

// isDuration reports whether an identifier stands for a duration.
func (c *checker) isDuration(e *ast.Ident) bool {
	_, is := c.durations[c.offset(e.Pos())]
	return is
}
