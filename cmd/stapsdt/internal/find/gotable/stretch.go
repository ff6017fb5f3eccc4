package gotable

import "slices"

// Stretch is code of a function that has one line, belongs to one inlined call, and has put one
// number of bytes on the stack.
type Stretch struct {
	Start, End  uint64
	Line        int
	Call, Stack int32
	// Callers are the places of the inlined calls to which it belongs, the innermost first.
	Callers []Caller
}

// Caller is the place of an inlined call: the call to which it belongs itself, and its line.
type Caller struct {
	Call int32
	Line int
}

// In reports whether the code belongs to some lines of an inlined call, or to a call in them.
func (s *Stretch) In(call int32, first, last int) bool {
	is := func(c Caller) bool { return c.Call == call && first <= c.Line && c.Line <= last }
	return is(Caller{s.Call, s.Line}) || slices.ContainsFunc(s.Callers, is)
}

// Stretches returns the code of a function, from its first address on.
func (t *Table) Stretches(entry uint64) (all []Stretch) {
	f := t.find(entry)
	if f == nil {
		return nil
	}
	start := f.entry
	for end, line := range f.values(f.field(wordLine)) {
		if start < end {
			all = append(all, Stretch{Start: start, End: end, Line: int(line), Call: -1})
		}
		start = end
	}
	callers := map[int32][]Caller{}
	all = f.split(all, f.pcdata(pcInlined), func(s *Stretch, n int32) {
		if _, known := callers[n]; !known {
			callers[n] = f.callers(n)
		}
		s.Call, s.Callers = n, callers[n]
	})
	return f.split(all, f.field(wordStack), func(s *Stretch, n int32) { s.Stack = n })
}

// callers returns the places of an inlined call, and of those to which it belongs.
func (f *goFunction) callers(call int32) (all []Caller) {
	tree, hasTree := f.tree()
	for call >= 0 && hasTree && len(all) < maxInlined {
		b := f.inlined.from(tree+uint64(call)*inlinedCall, inlinedCall)
		if len(b) < inlinedCall {
			break
		}
		at := f.entry + uint64(f.order.Uint32(b[8:]))
		call = f.value(f.pcdata(pcInlined), at)
		all = append(all, Caller{call, int(f.value(f.field(wordLine), at))})
	}
	return all
}

// split divides stretches where the values of a table change, and sets them.
func (f *goFunction) split(
	all []Stretch, table uint32, set func(*Stretch, int32),
) (parts []Stretch) {
	start := f.entry
	for end, n := range f.values(table) {
		for len(all) > 0 && all[0].Start < end {
			part := all[0]
			part.Start, part.End = max(part.Start, start), min(part.End, end)
			set(&part, n)
			parts = append(parts, part)
			if all[0].End > end {
				break
			}
			all = all[1:]
		}
		start = end
	}
	return append(parts, all...)
}
