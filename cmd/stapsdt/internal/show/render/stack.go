package render

import "strings"

// Stack is the stack from which an event was fired: a line for each function, the innermost first.
type Stack struct{ Lines []string }

// maxNumbered bounds the stacks that have numbers. After that, numbers begin again at 1.
const maxNumbered = 1 << 14

// stacks numbers the stacks that lines show.
type stacks map[string]int

// number returns the number of a stack, and whether it was not shown before.
func (s *stacks) number(of *Stack) (n int, isNew bool) {
	if *s == nil || len(*s) == maxNumbered {
		*s = stacks{}
	}
	key := strings.Join(of.Lines, "\n")
	if n = (*s)[key]; n == 0 {
		n, isNew = len(*s)+1, true
		(*s)[key] = n
	}
	return n, isNew
}

// folded returns the functions in a line, the outermost first.
func (s *Stack) folded() string {
	all := make([]string, len(s.Lines))
	for i, line := range s.Lines {
		all[len(all)-1-i] = strings.ReplaceAll(line, ";", ":")
	}
	return strings.Join(all, ";")
}
