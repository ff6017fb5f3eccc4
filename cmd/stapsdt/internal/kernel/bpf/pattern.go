//go:build linux

package bpf

import (
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Pattern is matched against the name of an executable.
type Pattern struct {
	op   expr.Op // Equal, HasPrefix, HasSuffix or Contains
	text string
}

// NewPattern returns a pattern, which may begin and end with a *. It returns nil if every name
// matches.
func NewPattern(pattern string) *Pattern {
	p := &Pattern{op: expr.Equal, text: strings.Trim(pattern, "*")}
	before, after := strings.HasPrefix(pattern, "*"), strings.HasSuffix(pattern, "*")
	switch {
	case p.text == "":
		return nil
	case before && after:
		p.op = expr.Contains
	case before:
		p.op = expr.HasSuffix
	case after:
		p.op = expr.HasPrefix
	}
	return p
}

// most returns the maximum length of the pattern's string.
func (p *Pattern) most() int {
	if p.op == expr.Contains || p.op == expr.HasSuffix {
		return value.MaxContains
	}
	return value.TextSize - 1
}

// ofExecutable exits the program unless the executable is selected. Call it after reserve: the name
// may be part of a key.
func (b *builder) ofExecutable() {
	p := b.env.Executable
	if p == nil {
		return
	}
	if len(p.text) > p.most() {
		b.fail(fmt.Errorf("the name of the executable has %d bytes, but at most %d can be compared", len(p.text), p.most()))
		return
	}
	name := origin{kind: fromExecutable}
	b.fail(b.variable(name, b.fault))
	text := expr.Type{Kind: expr.String}
	is := &expr.Node{
		Op: p.op, X: &expr.Node{Op: expr.Load, Type: text},
		Y: &expr.Node{Op: expr.Const, Type: text, Value: expr.StringValue(p.text)},
	}
	b.filter(
		&Expr{Expr: &expr.Expr{Root: is}, vars: &variables{sources: []origin{name}}}, labelExit,
	)
}
