//go:build linux

package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/nearest"

	"go.yaml.in/yaml/v3"
)

// reader reads the nodes of a file, and collects the errors.
type reader struct {
	name  string
	lines []string
	errs  []error
}

func (r *reader) errorf(n *yaml.Node, format string, args ...any) {
	r.errorAt(n.Line, n.Column, format, args...)
}

func (r *reader) errorAt(line, column int, format string, args ...any) {
	r.errs = append(
		r.errs, fmt.Errorf("%s:%d:%d: %s", r.name, max(line, 1), max(column, 1), fmt.Sprintf(format, args...)),
	)
}

// resolve returns the node to which an alias refers.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// mapping returns the values of a mapping by their keys, which must be among known. It returns nil
// if the node is not a mapping.
func (r *reader) mapping(n *yaml.Node, what string, known ...string) map[string]*yaml.Node {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.errorf(n, "%s must be keys with values, of %s", what, strings.Join(known, ", "))
		return nil
	}
	fields, lines := map[string]*yaml.Node{}, map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		name := resolve(key).Value
		switch {
		case resolve(key).Kind != yaml.ScalarNode || !slices.Contains(known, name):
			r.errorf(key, "%s", unknown(name, known))
		case fields[name] != nil:
			r.errorf(key, "duplicate key %s (first on line %d)", name, lines[name])
		case value.ShortTag() == "!!null":
			r.errorf(key, "the key %s has no value", name)
		default:
			fields[name], lines[name] = value, key.Line
		}
	}
	return fields
}

// maxKey is the maximum length of an unknown key for which a similar key is suggested.
const maxKey = 64

// unknown describes an unknown key, and suggests a similar one.
func unknown(name string, known []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, k := range known {
		d := least
		if len(name) <= maxKey {
			d = nearest.Distance(name, k)
		}
		if len(name) > 2 && strings.HasPrefix(k, name) {
			d = 0
		}
		if d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("unknown key %q; the nearest is %s", name, best)
	}
	return fmt.Sprintf("unknown key %q; the keys are %s", name, strings.Join(known, ", "))
}

// list returns the elements of a list. It may be nil.
func (r *reader) list(n *yaml.Node, key string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.errorf(n, "%s must be a list", key)
		return nil
	}
	var all []*yaml.Node
	for _, element := range n.Content {
		all = append(all, resolve(element))
	}
	return all
}

// text returns a string that is not empty. It returns "" if there is no node.
func (r *reader) text(n *yaml.Node) string {
	switch {
	case n == nil:
		return ""
	case n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null":
		r.errorf(n, "this must be a text")
	case strings.TrimSpace(n.Value) == "":
		r.errorf(n, "this is empty")
	default:
		return n.Value
	}
	return ""
}

// expr returns an expression with valid syntax. It returns "" if there is no node.
func (r *reader) expr(n *yaml.Node) string {
	src := r.text(n)
	if src == "" {
		return ""
	}
	var wrong *expr.Error
	if err := query.Syntax(src); errors.As(err, &wrong) {
		line, column := r.within(n, wrong)
		r.errorAt(line, column, "%s in the expression %s", wrong.Msg, src)
		return ""
	}
	return src
}

// within returns the position of an error in an expression if the file has the expression verbatim,
// and otherwise the position of the expression.
func (r *reader) within(n *yaml.Node, e *expr.Error) (line, column int) {
	column = n.Column
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		column++
	}
	if n.Line < 1 || n.Line > len(r.lines) {
		return n.Line, n.Column
	}
	text := []rune(r.lines[n.Line-1])
	if column < 1 || column > len(text) || !strings.HasPrefix(string(text[column-1:]), e.Src) {
		return n.Line, n.Column
	}
	return n.Line, column + len([]rune(e.Src[:e.Pos]))
}
