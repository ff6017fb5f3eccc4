package debuginfo

import (
	"debug/dwarf"
	"slices"
)

// Functions finds functions by their addresses, within the budget of its Entries.
type Functions struct {
	Entries
	Data *Data
	// Wanted are the addresses at which the functions begin, in order.
	Wanted []uint64
	// Ranges is the number of ranges of addresses that may still be read. Afterwards, units without
	// wanted functions are read too.
	Ranges int
}

// In calls visit with the entry of each wanted function of a unit, and its address. visit reads the
// entry's children.
func (f *Functions) In(u Unit, visit func(at uint64, e *dwarf.Entry) error) error {
	root, err := f.At(u.Entry)
	if err != nil || root == nil || !root.Children || !f.relevant(root) {
		return err
	}
	for depth := 1; depth > 0; {
		e, err := f.Next()
		switch {
		case err != nil || e == nil:
			return err
		case e.Tag == 0:
			depth--
			continue
		case e.Tag == dwarf.TagNamespace && e.Children:
			depth++
			continue
		case e.Tag == dwarf.TagSubprogram:
			low, ok := e.Val(dwarf.AttrLowpc).(uint64)
			if _, wanted := slices.BinarySearch(f.Wanted, low); ok && wanted {
				if err := visit(low, e); err != nil {
					return err
				}
				continue
			}
		}
		// Children are skipped by reading them, because a sibling attribute could lead anywhere.
		if err := f.Children(e, func(*dwarf.Entry) {}); err != nil {
			return err
		}
	}
	return nil
}

// relevant reports whether a unit can have a wanted function. A unit whose addresses are not known
// can.
func (f *Functions) relevant(root *dwarf.Entry) bool {
	if f.Ranges <= 0 {
		return true
	}
	ranges, err := f.Data.Ranges(root)
	f.Ranges -= len(ranges) + 1
	for _, r := range ranges {
		if i, _ := slices.BinarySearch(f.Wanted, r[0]); i < len(f.Wanted) && f.Wanted[i] < r[1] {
			return true
		}
	}
	return err != nil || len(ranges) == 0
}
