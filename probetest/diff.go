package probetest

import (
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt"
)

// equal reports whether two events are equal, apart from arguments that are ignored.
func (o *options) equal(a, b *stapsdt.Event) bool {
	if a.Probe() != b.Probe() && a.Probe().String() != b.Probe().String() ||
		a.NumArgs() != b.NumArgs() {
		return false
	}
	var info []stapsdt.ArgInfo
	if len(o.ignored) > 0 {
		info = a.Probe().Args()
	}
	for i := range a.NumArgs() {
		if info != nil && info[i].Name != "" && slices.Contains(o.ignored, info[i].Name) {
			continue
		}
		if a.Arg(i) != b.Arg(i) { // the kind, and the bits or the text
			return false
		}
	}
	return true
}

// maxTable is the most entries of diff's table, which take 16 MiB.
const maxTable = 4 << 20

// diff returns the lines of both lists, in which those that are only in want begin with a
// minus, and those only in got with a plus. It returns "" if the lists are equal.
func (o *options) diff(want, got []*stapsdt.Event) string {
	if slices.EqualFunc(want, got, o.equal) {
		return ""
	}
	var s strings.Builder
	lines := func(prefix string, events ...*stapsdt.Event) {
		for _, e := range events {
			s.WriteString("\t" + prefix + e.String() + "\n")
		}
	}
	// What both lists begin and end with needs no place in the table.
	for len(want) > 0 && len(got) > 0 && o.equal(want[0], got[0]) {
		lines("  ", got[0])
		want, got = want[1:], got[1:]
	}
	rest := got
	for len(want) > 0 && len(got) > 0 && o.equal(want[len(want)-1], got[len(got)-1]) {
		want, got = want[:len(want)-1], got[:len(got)-1]
	}
	if (len(want)+1)*(len(got)+1) > maxTable {
		lines("- ", want...)
		lines("+ ", got...)
	} else {
		o.diffTable(want, got, lines)
	}
	lines("  ", rest[len(got):]...)
	return strings.TrimSuffix(s.String(), "\n")
}

// diffTable calls lines with each line of a diff.
func (o *options) diffTable(
	want, got []*stapsdt.Event, lines func(prefix string, events ...*stapsdt.Event),
) {
	// common[i][j] is the length of the longest common subsequence of want[i:] and got[j:].
	common := make([][]int32, len(want)+1)
	for i := range common {
		common[i] = make([]int32, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if o.equal(want[i], got[j]) {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && o.equal(want[i], got[j]):
			lines("  ", got[j])
			i, j = i+1, j+1
		case j == len(got) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			lines("- ", want[i])
			i++
		default:
			lines("+ ", got[j])
			j++
		}
	}
}
