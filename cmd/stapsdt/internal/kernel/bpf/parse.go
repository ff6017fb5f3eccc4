//go:build linux

package bpf

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Expr is an expression of the variables of a probe.
type Expr struct {
	*expr.Expr
	vars *variables
}

// Parse checks an expression for a probe. In addition to the syntax of package expr, str(name) is
// the string that an argument without a type points to. The error is an *expr.Error.
func (p *Probe) Parse(src string) (*Expr, error) { return p.parse(src, expr.Parse) }

// ParseFilter is Parse for a condition. It returns nil for "".
func (p *Probe) ParseFilter(src string) (*Expr, error) {
	if src == "" {
		return nil, nil
	}
	return p.parse(src, expr.ParseFilter)
}

// parseInteger is Parse for an integer expression. what names its user in the error.
func (p *Probe) parseInteger(src, what string) (*Expr, error) {
	return p.parse(src, func(src string, vars []expr.Var) (*expr.Expr, error) {
		return expr.ParseInteger(src, vars, what)
	})
}

func (p *Probe) parse(
	src string, parse func(string, []expr.Var) (*expr.Expr, error),
) (*Expr, error) {
	vars := p.variables()
	if err := p.addTexts(src, vars); err != nil {
		return nil, err
	}
	e, err := parse(src, vars.vars)
	var wrong *expr.Error
	if errors.As(err, &wrong) && p.ArgsErr != nil {
		wrong.Msg += fmt.Sprintf(" (%v has no arguments: %v)", p, p.ArgsErr)
	}
	if err != nil {
		p.explainVariable(err)
		return nil, query.ExplainStart(err, p.Provider, p.Name)
	}
	return &Expr{e, vars}, nil
}

// explainVariable adds to an error the reason why an expression cannot use a variable of a line.
func (p *Probe) explainVariable(err error) {
	var wrong *expr.Error
	name := query.Undefined(err)
	if p.Function == nil || name == "" || !errors.As(err, &wrong) {
		return
	}
	root := name[:len(name)-len(strings.TrimLeftFunc(name, isWord))]
	unread := cmp.Or(p.Function.Unread[name], p.Function.Unread[root])
	switch unsure := p.Function.Unsure[root]; {
	case unread != nil:
		wrong.Msg = fmt.Sprintf("%s is not read there: %v", root, unread)
	case unsure != nil:
		wrong.Msg = fmt.Sprintf("%s may be old there (%v): %s accepts that", root, unsure, value.Unsure(name))
	}
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// addTexts adds a variable for each str(name) in an expression.
func (p *Probe) addTexts(src string, vars *variables) error {
	if len(src) > expr.MaxSource {
		return nil // package expr refuses it
	}
	tree, file, err := expr.Tree(src)
	if err != nil {
		return nil // package expr reports the error
	}
	var wrong error
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "str" {
			return true
		}
		start, end := file.Offset(call.Pos()), file.Offset(call.End())
		text := strings.ReplaceAll(src[start:end], " ", "")
		if vars.has(text) { // from the start
			return false
		}
		arg, err := p.pointer(call)
		if err != nil {
			wrong = &expr.Error{Src: src, Pos: start, Msg: err.Error()}
			return false
		}
		vars.add(text, expr.Type{Kind: expr.String}, origin{fromText, arg})
		return false
	})
	return wrong
}

// pointer returns the index of the argument that a call of str names.
func (p *Probe) pointer(call *ast.CallExpr) (int, error) {
	if len(call.Args) == 1 {
		if name, ok := call.Args[0].(*ast.Ident); ok && strings.Trim(name.Name, "_") != "" {
			for i, a := range p.Args {
				if name.Name != a.Name && name.Name != fmt.Sprintf("arg%d", i) {
					continue
				}
				if a.Size != 8 && a.Size != 4 && a.Err == nil {
					return 0, fmt.Errorf("%s has %d bytes and is not the address of a string", name.Name, a.Size)
				}
				if t := a.Type; t != nil && t.Kind == sdt.KindPointer && value.IsGoString(t.Elem) {
					return 0, fmt.Errorf("%s is the address of a Go string's header, but str reads C strings: use trace -v", name.Name)
				}
				return i, nil
			}
			return 0, fmt.Errorf("%s is not an argument of %v", name.Name, p)
		}
	}
	return 0, errors.New("str takes the name of one argument")
}
