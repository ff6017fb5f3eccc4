package expr

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// connectives maps operators of other languages to Go's.
var connectives = map[string]string{
	"and": "&&", "AND": "&&", "or": "||", "OR": "||", "not": "!", "NOT": "!", "<>": "!=", "===": "==", "!==": "!=", "in": "== and ||", "between": ">=, && and <=",
}

// matchers maps the operators by which other languages compare texts to functions.
var matchers = map[string]string{
	"=~": "strings.Contains", "~": "strings.Contains", "!~": "!strings.Contains", "like": "strings.Contains",
	"contains": "strings.Contains", "matches": "strings.Contains", "startswith": "strings.HasPrefix", "endswith": "strings.HasSuffix",
}

// foreignOperator matches an operator that Go does not have, with the text after it.
var foreignOperator = lazyregexp.New(`^(?i:===|!==|<>|[=!]?~|(?:in|between|like|contains|matches|startswith|endswith)\b)\s*(\S*)`)

// foreign returns the message for an operator of another language that follows an operand, or "".
func (w word) foreign(src string, before word) string {
	if !before.ends() {
		return ""
	}
	found := foreignOperator().FindStringSubmatch(src[w.pos:])
	if found == nil {
		return ""
	}
	operator := strings.TrimSpace(strings.TrimSuffix(found[0], found[1]))
	function := matchers[strings.ToLower(operator)]
	if function == "" {
		return fmt.Sprintf("%s is not an operator: use %s", operator, connectives[strings.ToLower(operator)])
	}
	pattern := strings.Trim(found[1], `"'%`)
	if pattern == found[1] {
		pattern = strings.Trim(pattern, "/")
	}
	switch {
	case strings.HasPrefix(pattern, "^"):
		function = strings.Replace(function, "Contains", "HasPrefix", 1)
	case strings.HasSuffix(pattern, "$"):
		function = strings.Replace(function, "Contains", "HasSuffix", 1)
	}
	pattern = strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$")
	if pattern == "" || strings.ContainsAny(pattern, `\.*+?()[]{}|"`) {
		pattern = "text"
	}
	return fmt.Sprintf("%s is not an operator: use %s(%s, %q)", operator, function, before.text, cut(pattern))
}

// path matches a text that begins with a slash.
var path = lazyregexp.New(`^/[^\s"'()&|]+`)

// quoteless returns the message for a text without quotes in place of an operand, or "".
func (w word) quoteless(src string, before word) string {
	if text := path().FindString(src[w.pos:]); text != "" && before.compares() {
		return fmt.Sprintf("write a string in double quotes: %q instead of %[1]s", cut(text))
	}
	return ""
}

// compares reports whether a word is the operator of a comparison.
func (w word) compares() bool {
	switch w.Token {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return true
	}
	return false
}

// conversion returns the error for a call that converts a value, which an expression never needs,
// or nil.
func (c *checker) conversion(e *ast.CallExpr) error {
	name, _ := dotted(e.Fun)
	if at := strings.LastIndexByte(name, '.'); at > 0 && len(e.Args) == 1 && name[:at] != "strings" {
		if function := matchers[strings.ToLower(name[at+1:])]; function != "" {
			form := "%s is not a function: use %s(%s, %s)"
			return c.errorf(c.offset(e.Pos()), form, name, function, name[:at], c.source(e.Args[0]))
		}
	}
	if len(e.Args) != 1 || !conversions().MatchString(name) {
		return nil
	}
	reason := "numbers of different types can be compared and combined"
	if name == "string" {
		reason = "texts and bytes are compared as they are"
	}
	at, value := c.offset(e.Pos()), c.source(e.Args[0])
	return c.errorf(at, "%s is not a function: give %s, because %s", name, value, reason)
}

// conversions matches the types of Go to which a program converts.
var conversions = lazyregexp.New(`^(string|u?int(8|16|32|64)?|float(32|64))$`)

// unquoted returns err, with a remark if err means that a name beside a text is undefined.
func (c *checker) unquoted(e ast.Expr, beside operand, err error) error {
	wrong, ok := err.(*Error)
	name, isName := e.(*ast.Ident)
	if !ok || !isName || wrong.Near || beside.kind() != String {
		return err
	}
	with := *wrong
	with.Msg += fmt.Sprintf("; write a string in double quotes: %q", name.Name)
	return &with
}
