//go:build linux

package main

import (
	"go/ast"
	"go/token"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// splitExprs splits expressions at the commas between them. What is not valid Go stays one
// expression, whose error is found later.
func splitExprs(lists []string) (all []string) {
	for _, list := range lists {
		const before = "f("
		tree, file, err := expr.Tree(before + list + ")")
		call, ok := tree.(*ast.CallExpr)
		if err != nil || !ok || len(call.Args) == 0 {
			all = append(all, list)
			continue
		}
		for _, arg := range call.Args {
			start, end := file.Offset(arg.Pos()), file.Offset(arg.End())
			all = append(all, strings.TrimSpace(list[start-len(before):end-len(before)]))
		}
	}
	return all
}

// splitWhere splits a condition at each && that is not within another operation.
func splitWhere(condition string) []string {
	if condition == "" {
		return nil
	}
	tree, file, err := expr.Tree(condition)
	and, ok := tree.(*ast.BinaryExpr)
	if err != nil || !ok || and.Op != token.LAND {
		return []string{condition}
	}
	at := file.Offset(and.OpPos)
	return append(splitWhere(strings.TrimSpace(condition[:at])), splitWhere(strings.TrimSpace(condition[at+len("&&"):]))...)
}
