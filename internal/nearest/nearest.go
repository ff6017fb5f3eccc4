// Package nearest finds the existing name that is most similar to a name that does not exist.
package nearest

import "unicode/utf8"

// Name finds the nearest of the names passed to See.
type Name struct {
	asked string
	most  int // the largest distance of a similar name
	name  string
	left  int // how many more names are compared
}

// Names may come from hostile programs.
const (
	maxName  = 128 // bytes of a name that are compared
	maxNames = 4096
)

// To returns a Name that finds a name similar to asked: no more than a third of it differs.
func To(asked string) *Name {
	n := &Name{asked: asked, most: max(1, utf8.RuneCountInString(asked)/3), left: maxNames}
	if len(asked) > maxName {
		n.left = 0
	}
	return n
}

// See adds a name to the search.
func (n *Name) See(name string) {
	if n.left == 0 || len(name) > maxName {
		return
	}
	n.left--
	d := Distance(n.asked, name)
	if d < n.most || d == n.most && (n.name == "" || name < n.name) {
		n.name, n.most = name, d
	}
}

// Hint returns a suggestion to append to the error for a missing name, or "" if no name is
// similar.
func (n *Name) Hint() string {
	if n.name == "" {
		return ""
	}
	return "; the nearest name is " + n.name
}

// Hint returns the suggestion for a missing name among names.
func Hint(asked string, names ...string) string {
	n := To(asked)
	for _, name := range names {
		n.See(name)
	}
	return n.Hint()
}

// Distance returns the number of characters to insert, remove or replace to change a into b. The
// wildcards of a pattern match anything, and cost nothing.
func Distance(a, b string) int {
	to := []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for _, r := range a {
		free := r == '*'
		before := row[0] // from the row above, one to the left
		if !free {
			row[0]++
		}
		for j, c := range to {
			above := row[j+1]
			switch {
			case free:
				row[j+1] = min(above, row[j], before)
			case r == c || r == '?':
				row[j+1] = before
			default:
				row[j+1] = 1 + min(above, row[j], before)
			}
			before = above
		}
	}
	return row[len(to)]
}
