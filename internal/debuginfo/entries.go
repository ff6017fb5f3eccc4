package debuginfo

import (
	"debug/dwarf"
	"errors"
)

// ErrBudget means that the budget for reading entries is used up.
var ErrBudget = errors.New("there is more DWARF than may be read")

// entryWork is the cost of an entry, even if it has no attributes.
const entryWork = 3

// Entries reads entries of DWARF until it has used up a budget. An attribute costs 1, and so do 64
// bytes of a string.
type Entries struct {
	R    *dwarf.Reader
	Left int // the rest of the budget
}

// At returns the entry at an offset.
func (s *Entries) At(offset dwarf.Offset) (*dwarf.Entry, error) {
	s.R.Seek(offset)
	return s.Next()
}

// Next returns the next entry, or nil at the end.
func (s *Entries) Next() (*dwarf.Entry, error) {
	if s.Left < 0 {
		return nil, ErrBudget
	}
	e, err := s.R.Next()
	if e == nil || err != nil {
		return nil, err
	}
	s.Left -= entryWork
	for i := range e.Field {
		s.Left--
		switch v := e.Field[i].Val.(type) {
		case string:
			s.Left -= len(v) / 64
		case []byte:
			s.Left -= len(v) / 64
		}
	}
	return e, nil
}

// Children reads everything below the entry that was read last, and calls visit with the entry's
// children. All of it counts as work.
func (s *Entries) Children(e *dwarf.Entry, visit func(*dwarf.Entry)) error {
	if !e.Children {
		return nil
	}
	for depth := 1; depth > 0; {
		c, err := s.Next()
		if err != nil || c == nil {
			return err
		}
		if c.Tag == 0 {
			depth--
			continue
		}
		if depth == 1 {
			visit(c)
		}
		if c.Children {
			depth++
		}
	}
	return nil
}
