package gotable

// Stretch is code of a function that has one line, belongs to one inlined call, and has put one
// number of bytes on the stack.
type Stretch struct {
	Start, End  uint64
	Line        int
	Call, Stack int32
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
	all = f.split(all, f.pcdata(pcInlined), func(s *Stretch, n int32) { s.Call = n })
	return f.split(all, f.field(wordStack), func(s *Stretch, n int32) { s.Stack = n })
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
