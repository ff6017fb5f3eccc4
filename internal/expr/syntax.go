package expr

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Syntax checks an expression as far as possible before its names and their types are known.
// The names without a dot in functions may be called, too. If the expression is invalid,
// Syntax returns an *Error.
func Syntax(src string, functions ...string) error {
	c := &checker{src: src}
	tree, err := c.parse()
	if err != nil {
		return err
	}
	return c.syntax(tree, functions, 0)
}

// syntax checks a part of the expression at a depth.
func (c *checker) syntax(e ast.Expr, functions []string, depth int) error {
	pos := c.offset(e.Pos())
	if depth > MaxDepth {
		return c.errorf(pos, "the expression is nested more than %d deep", MaxDepth)
	}
	var parts []ast.Expr
	switch e := e.(type) {
	case *ast.ParenExpr:
		parts = []ast.Expr{e.X}
	case *ast.UnaryExpr:
		if unaries[e.Op] == 0 && e.Op != token.ADD {
			return c.errorf(c.offset(e.OpPos), "the operator %v is not supported", e.Op)
		}
		parts = []ast.Expr{e.X}
	case *ast.BinaryExpr:
		if binaries[e.Op] == 0 {
			return c.errorf(c.offset(e.OpPos), "the operator %v is not supported", e.Op)
		}
		parts = []ast.Expr{e.X, e.Y}
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && slices.Contains(functions, f.Name) {
			return nil // the caller of Syntax knows the arguments
		}
		if _, err := c.callee(e); err != nil {
			return err
		}
		parts = e.Args
	case *ast.SelectorExpr, *ast.IndexExpr:
		if path, ok := dotted(e); ok && !strings.HasPrefix(path, "time.") &&
			!strings.HasPrefix(path, "strings.") {
			return nil
		}
		_, err := c.selector(e, pos)
		return err
	case *ast.BasicLit:
		_, err := c.literal(e, pos)
		return err
	case *ast.Ident:
		return nil
	default:
		return c.errorf(pos, "%s: filters consist of names, constants, operators and calls of a few functions", c.source(e))
	}
	for _, part := range parts {
		if err := c.syntax(part, functions, depth+1); err != nil {
			return err
		}
	}
	return nil
}
