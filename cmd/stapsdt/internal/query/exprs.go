package query

import (
	"errors"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// SplitExprs splits lists of expressions at the commas between them. It returns an error if an
// expression is wrong regardless of the meaning of its names.
func SplitExprs(lists []string) (all []string, err error) {
	for _, list := range lists {
		const before = "f("
		tree, file, err := expr.Tree(before + list + ")")
		var wrong *expr.Error
		if errors.As(err, &wrong) {
			return nil, &expr.Error{
				Src: list, Pos: min(max(wrong.Pos-len(before), 0), len(list)), Msg: wrong.Msg,
			}
		}
		call, ok := tree.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 { // f(a) + (b), or nothing
			return nil, CheckSyntax(list)
		}
		for _, arg := range call.Args {
			start, end := file.Offset(arg.Pos()), file.Offset(arg.End())
			all = append(all, strings.TrimSpace(list[start-len(before):end-len(before)]))
		}
	}
	return all, CheckSyntax(all...)
}

// Syntax is expr.Syntax with the functions whose meaning depends on the probe.
func Syntax(src string) error { return expr.Syntax(src, "str", value.UnsureFunction) }

// CheckSyntax returns an error if an expression is wrong regardless of the meaning of its names.
func CheckSyntax(exprs ...string) error {
	for _, src := range exprs {
		if err := Syntax(src); err != nil {
			return err
		}
	}
	return nil
}

// SplitWhere splits a condition at each && that is not inside another operation.
func SplitWhere(condition string) []string {
	if condition == "" {
		return nil
	}
	tree, file, err := expr.Tree(condition)
	and, ok := tree.(*ast.BinaryExpr)
	if err != nil || !ok || and.Op != token.LAND {
		return []string{condition}
	}
	at := file.Offset(and.OpPos)
	return append(
		SplitWhere(strings.TrimSpace(condition[:at])),
		SplitWhere(strings.TrimSpace(condition[at+len("&&"):]))...)
}

// thread matches the variable with the thread that fires.
var thread = lazyregexp.New(`\btid\b`)

// KeyNeedsThread returns "--key thread" if a key has this part, or else UsesThread.
func KeyNeedsThread(key []string, exprs ...string) string {
	if slices.Contains(key, Thread) {
		return "--key thread"
	}
	return UsesThread(append(slices.Clone(key), exprs...)...)
}

// UsesThread returns "tid" if one of the expressions uses this variable, or "". Only the kernel
// knows the thread.
func UsesThread(exprs ...string) string {
	if slices.ContainsFunc(exprs, thread().MatchString) {
		return "tid"
	}
	return ""
}
