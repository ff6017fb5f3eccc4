//go:build linux

package function

import (
	"cmp"
	"slices"
)

// judge notes what all instructions from one to an offset do. A jump does nothing, unless it leads
// to other code of the line.
func (f *flow) judge(first int, end uint64, inLine func(offset uint64) bool) {
	loads, computes := true, true
	for i := first; i < len(f.steps) && f.offsets[i] < end; i++ {
		s := &f.steps[i]
		moves, acts := s.moves, s.acts
		if len(s.to) > 0 && !s.next {
			acts = slices.ContainsFunc(s.to, func(to int) bool { return inLine(f.offsets[to]) })
			moves = !acts
		}
		loads, computes = loads && moves, computes && !acts
	}
	f.steps[first].loads, f.steps[first].computes = loads, computes
}

// acts reports whether an instruction from one to an offset does something.
func (f *flow) acts(first int, end uint64) bool {
	for i := first; i < len(f.steps) && f.offsets[i] < end; i++ {
		if f.steps[i].acts {
			return true
		}
	}
	return false
}

// entered returns the instructions behind one and before an offset to which jumps from elsewhere
// lead, unless they can be executed without that one before: the condition of a loop may be there,
// and only its first evaluation begin at the instruction.
func (f *flow) entered(first int, end uint64) (all []int) {
	without := map[int]bool{first: true}
	for i := first + 1; i < len(f.steps) && f.offsets[i] < end; i++ {
		elsewhere := func(from int) bool { return from < first || f.offsets[from] >= end }
		if slices.ContainsFunc(f.sources[i], elsewhere) && !f.reaches(entry, i, without) {
			all = append(all, i)
		}
	}
	return all
}

// maxCompared is the maximum number of addresses of a line in a function of which it is known how
// they follow each other.
const maxCompared = 64

// distinct returns those of some instructions of one line that are executed once for each execution
// of the statement. The compiler marks each call in a statement as the beginning of one again: an
// instruction that is only reached through another one of the line is left out. continued are other
// instructions of the line.
func (f *flow) distinct(all, continued []int) (kept []int) {
	without := map[int]bool{}
	for _, i := range f.byDominance(all) {
		if f.reaches(entry, i, without) ||
			f.reaches(entry, i, nil) && f.reaches(f.following(i), i, without) {
			without[i] = true
			kept = append(kept, i)
		}
	}
	kept = slices.DeleteFunc(kept, func(i int) bool { return f.begins(i, without) })
	if more := f.moved(kept, continued); more != nil {
		return f.distinct(more, nil)
	}
	if more := f.missed(without, continued); len(more) > 0 {
		return f.distinct(append(more, kept...), nil)
	}
	// The values of a statement may be loaded early, at the end of the branches that lead to it.
	loads := func(i int) bool { return f.steps[i].loads }
	if slices.ContainsFunc(kept, func(i int) bool { return !loads(i) }) {
		kept = slices.DeleteFunc(kept, loads)
	}
	slices.Sort(kept)
	return kept
}

// missed returns instructions that do something before any of a set: no statement is marked where
// the execution of some loops begins.
func (f *flow) missed(set map[int]bool, continued []int) (all []int) {
	for _, i := range continued {
		if !f.steps[i].computes && f.reaches(entry, i, set) {
			all = append(all, i)
		}
	}
	return all
}

// moved returns other instructions for those of a set that only compute a value before a loop, to
// which the compiler has moved them from the statement in the loop, or nil if there are none. The
// others are also in the set or, if the compiler has moved the beginning of the statement too, in
// continued.
func (f *flow) moved(set, continued []int) (others []int) {
	found := false
	for _, i := range set {
		inLoop := f.repeated(i, set)
		if len(inLoop) == 0 {
			inLoop = f.repeated(i, continued)
		}
		if found = found || len(inLoop) > 0; len(inLoop) == 0 {
			inLoop = []int{i}
		}
		others = append(others, inLoop...)
	}
	if !found {
		return nil
	}
	slices.Sort(others)
	return slices.Compact(others)
}

// repeated returns those of some instructions that follow one that only computes a value, and can
// be executed again without it.
func (f *flow) repeated(first int, others []int) (all []int) {
	without := map[int]bool{first: true}
	for _, i := range others {
		if f.steps[first].computes && i != first && !f.steps[i].loads &&
			!f.reaches(entry, i, without) && f.reaches(f.following(i), i, without) {
			all = append(all, i)
		}
	}
	return all
}

// byDominance sorts instructions so that one through which others are reached comes before them.
func (f *flow) byDominance(all []int) []int {
	all = slices.Clone(all)
	slices.Sort(all)
	if len(all) < 2 || len(all) > maxCompared {
		return all
	}
	dominated := map[int]int{} // how many
	for _, i := range all {
		reached := map[int]bool{}
		f.after(entry, map[int]bool{i: true}, func(at int) bool {
			reached[at] = true
			return true
		})
		for _, other := range all {
			if !reached[other] {
				dominated[i]++
			}
		}
	}
	slices.SortStableFunc(all, func(a, b int) int {
		return cmp.Compare(dominated[b], dominated[a])
	})
	return all
}

// begins reports whether an instruction of a set only prepares a loop whose header is in the set,
// as that of i := 0 does in a for statement: another one of the set always follows it, and can then
// be executed again without it.
func (f *flow) begins(i int, set map[int]bool) bool {
	follows, ends := []int{}, false
	f.after(f.following(i), set, func(at int) bool {
		switch {
		case at == i:
			ends = true
		case set[at]:
			follows = append(follows, at)
		case f.steps[at].ends:
			ends = true
		}
		return !ends
	})
	if ends || len(follows) == 0 {
		return false
	}
	delete(set, i)
	isLoop := slices.ContainsFunc(follows, func(at int) bool {
		return f.reaches(f.following(at), at, map[int]bool{i: true})
	})
	if !isLoop {
		set[i] = true
	}
	return isLoop
}
