// Package lazyregexp delays the compilation of regular expressions until they are used. A command
// that compiled all of them when it starts would start several milliseconds later.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns a regular expression. Its first call compiles the expression,
// and panics if it is not valid.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
