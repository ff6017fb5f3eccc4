package expr

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
	"github.com/go-stapsdt/stapsdt/internal/nearest"
)

// checker resolves names and types.
type checker struct {
	src       string
	vars      []Var
	file      *token.File
	durations map[int]int64 // durations by the offsets of their literals
}

func (c *checker) errorf(pos int, format string, args ...any) *Error {
	return &Error{Src: c.src, Pos: min(max(pos, 0), len(c.src)), Msg: fmt.Sprintf(format, args...)}
}

func (c *checker) offset(p token.Pos) int {
	if !p.IsValid() {
		return len(c.src)
	}
	return c.file.Offset(p)
}

// source returns the source of a part, cut for a message.
func (c *checker) source(e ast.Expr) string {
	return cut(c.src[c.offset(e.Pos()):c.offset(e.End())])
}

// expr checks a part of the expression at a depth.
func (c *checker) expr(e ast.Expr, depth int) (operand, error) {
	x, err := c.part(e, depth)
	if err != nil {
		return operand{}, err
	}
	x.text = c.source(e)
	return x, nil
}

func (c *checker) part(e ast.Expr, depth int) (operand, error) {
	pos := c.offset(e.Pos())
	if depth > MaxDepth {
		return operand{}, c.errorf(pos, "the expression is nested more than %d deep", MaxDepth)
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.expr(e.X, depth+1)
	case *ast.BasicLit:
		return c.literal(e, pos)
	case *ast.Ident:
		return c.name(e, pos)
	case *ast.SelectorExpr, *ast.IndexExpr:
		return c.selector(e, pos)
	case *ast.UnaryExpr:
		return c.unary(e, depth)
	case *ast.BinaryExpr:
		return c.binary(e, depth)
	case *ast.CallExpr:
		return c.call(e, depth)
	}
	return operand{}, c.errorf(pos, "%s: filters consist of names, constants, operators and calls of a few functions", c.source(e))
}

func (c *checker) literal(e *ast.BasicLit, pos int) (operand, error) {
	v := constant.MakeFromLiteral(e.Value, e.Kind, 0)
	switch {
	case e.Kind == token.IMAG:
		return operand{}, c.errorf(pos, "complex numbers are not supported")
	case v.Kind() == constant.Unknown:
		return operand{}, c.errorf(pos, "the literal %s is invalid", c.source(e))
	}
	return c.constant(v, pos)
}

func (c *checker) name(e *ast.Ident, pos int) (operand, error) {
	if d, ok := c.durations[pos]; ok {
		return operand{typ: durationType, val: constant.MakeInt64(d), pos: pos}, nil
	}
	if x, ok := c.variable(e.Name, pos); ok {
		return x, nil
	}
	switch e.Name {
	case "true", "false":
		return operand{val: constant.MakeBool(e.Name == "true"), untyped: true, pos: pos}, nil
	case "len", "strings", "time":
		return operand{}, c.errorf(pos, "%s must be used as in len(s), strings.Contains(s, t) or time.Second", e.Name)
	case "_", "nil", "iota":
		return operand{}, c.errorf(pos, "%s cannot be used here", e.Name)
	}
	return operand{}, c.unknown(pos, e.Name, e.Name, c.known(""))
}

// variable returns the first variable of a name.
func (c *checker) variable(name string, pos int) (operand, bool) {
	i := slices.IndexFunc(c.vars, func(v Var) bool { return v.Name == name })
	if i < 0 {
		return operand{}, false
	}
	if v := c.vars[i]; v.Constant != nil {
		value := constant.MakeUint64(v.Constant.Uint())
		if v.Type.Kind == Int {
			value = constant.MakeInt64(v.Constant.Int())
		}
		return operand{val: value, untyped: true, named: true, pos: pos}, true
	}
	return operand{
		typ: c.vars[i].Type, tree: &Node{Op: Load, Type: c.vars[i].Type, Var: i, Pos: pos},
		pos: pos,
	}, true
}

// undefined begins the message that a name is unknown.
const undefined = "undefined: "

// unknown returns the error that an expression src names no variable. known lists the variables.
func (c *checker) unknown(pos int, src, asked, known string) error {
	length := "len(" + asked + ")"
	if slices.ContainsFunc(c.vars, func(v Var) bool { return v.Name == length }) {
		err := c.errorf(pos, undefined+"%s; there is %s", src, cut(length))
		err.Near = true
		return err
	}
	near := nearest.To(asked)
	for _, v := range c.vars {
		if usable(v.Name) {
			near.See(v.Name)
		}
	}
	err := c.errorf(pos, undefined+"%s%s%s", src, near.Hint(), known)
	err.Near = near.Hint() != ""
	return err
}

// usable reports whether an expression can have a variable's name.
func usable(name string) bool {
	const longest = 64
	bad := func(part string) bool {
		return !token.IsIdentifier(indexes().ReplaceAllString(part, ""))
	}
	return len(name) <= longest && !slices.ContainsFunc(strings.Split(name, "."), bad)
}

// indexes matches the indexes of an array at the end of a name.
var indexes = lazyregexp.New(`(\[\d+\])+$`)

// knownParts lists the parts of the value to which a path leads, or all names if the path leads to
// no value.
func (c *checker) knownParts(path string) string {
	value := path
	if end := strings.IndexAny(path, ".["); end >= 0 {
		value = path[:end]
	}
	if text := c.known(value + "."); text != "" {
		return text
	}
	if _, ok := c.variable(value, 0); ok {
		return fmt.Sprintf("; no part of %s is known here", value)
	}
	return c.known("")
}

// known lists the names that begin with a prefix for an error message. It omits names that are not
// identifiers: they cannot be used, and may come from a hostile program.
func (c *checker) known(prefix string) string {
	const most = 12
	var names []string
	for _, v := range c.vars {
		if !strings.HasPrefix(v.Name, prefix) || !usable(v.Name) {
			continue
		}
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return "; the names are " + strings.Join(names, ", ")
}

var units = map[string]time.Duration{
	"time.Nanosecond": time.Nanosecond, "time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond,
	"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour,
}

var durationType = Type{Kind: Int, Size: 8, Unit: kind.Nanoseconds}

func (c *checker) selector(e ast.Expr, pos int) (operand, error) {
	path, ok := dotted(e)
	if d, ok := units[path]; ok {
		return operand{typ: durationType, val: constant.MakeInt64(int64(d)), pos: pos}, nil
	}
	if functions[path] != 0 {
		return operand{}, c.errorf(pos, "%s must be called", path)
	}
	// A part of a value is a variable too. Its name has dots, or an index.
	if !ok {
		return operand{}, c.errorf(pos, undefined+"%s%s", c.source(e), c.known(""))
	}
	if v, ok := c.variable(path, pos); ok {
		return v, nil
	}
	return operand{}, c.unknown(pos, c.source(e), path, c.knownParts(path))
}

// dotted returns a selector of names, in which an integer may be the index of an array, as in the
// source without white space.
func dotted(e ast.Expr) (path string, ok bool) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, true
	case *ast.SelectorExpr:
		path, ok = dotted(e.X)
		return path + "." + e.Sel.Name, ok
	case *ast.IndexExpr:
		path, ok = dotted(e.X)
		index, isLiteral := e.Index.(*ast.BasicLit)
		if !isLiteral || index.Kind != token.INT {
			return "", false
		}
		return path + "[" + index.Value + "]", ok
	}
	return "", false
}

// functions are the functions that an expression may call.
var functions = map[string]Op{"len": Len, "strings.HasPrefix": HasPrefix, "strings.HasSuffix": HasSuffix, "strings.Contains": Contains}

// callee returns the function that is called, and checks the number of its arguments.
func (c *checker) callee(e *ast.CallExpr) (Op, error) {
	pos := c.offset(e.Pos())
	switch e.Fun.(type) {
	case *ast.Ident, *ast.SelectorExpr:
	default:
		return 0, c.errorf(pos, "%s cannot be called", c.source(e.Fun))
	}
	name, _ := dotted(e.Fun)
	op, want := functions[name], 2
	switch op {
	case 0:
		if err := c.conversion(e); err != nil {
			return 0, err
		}
		return 0, c.errorf(pos, "undefined function: %s; the functions are len, strings.HasPrefix, strings.HasSuffix and strings.Contains", c.source(e.Fun))
	case Len:
		want = 1
	}
	if len(e.Args) != want || e.Ellipsis.IsValid() {
		return 0, c.errorf(
			c.offset(e.Rparen), "%s takes %s, not %d", c.source(e.Fun), [...]string{"", "one argument", "two arguments"}[want], len(e.Args),
		)
	}
	return op, nil
}

func (c *checker) call(e *ast.CallExpr, depth int) (operand, error) {
	pos := c.offset(e.Pos())
	if _, ok := e.Fun.(*ast.Ident); ok {
		if x, ok := c.variable(strings.ReplaceAll(c.src[pos:c.offset(e.End())], " ", ""), pos); ok {
			return x, nil
		}
	}
	op, err := c.callee(e)
	if err != nil {
		return operand{}, err
	}
	var args [2]operand
	constants := true
	for i, arg := range e.Args {
		x, err := c.expr(arg, depth+1)
		if err != nil {
			return operand{}, err
		}
		if args[i], err = c.convert(x, Type{Kind: String}); err != nil {
			return operand{}, err
		}
		constants = constants && args[i].val != nil
	}
	if constants {
		return c.callConstant(op, args, pos)
	}
	n := &Node{Op: op, Type: Type{Kind: Bool, Size: 1}, X: args[0].node(), Pos: pos}
	if op == Len {
		n.Type = Type{Kind: Int, Size: 8}
	} else {
		n.Y = args[1].node()
	}
	return operand{typ: n.Type, tree: n, pos: pos}, nil
}

// callConstant calls a function with constants. The result has a type, as in Go.
func (c *checker) callConstant(op Op, args [2]operand, pos int) (operand, error) {
	x := constant.StringVal(args[0].val)
	if op == Len {
		return operand{
			typ: Type{Kind: Int, Size: 8}, val: constant.MakeInt64(int64(len(x))), pos: pos,
		}, nil
	}
	match := text(op, x, constant.StringVal(args[1].val))
	return operand{typ: Type{Kind: Bool, Size: 1}, val: constant.MakeBool(match), pos: pos}, nil
}
