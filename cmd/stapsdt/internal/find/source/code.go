//go:build linux

package source

// code describes the functions and lines of a unit by their addresses.
type code struct {
	unit    *unit
	b       []byte // the unit's entries
	abbrevs *abbrevs
	// functions are the places of functions in b.
	functions spans[int]
	lines     *lines
}

const (
	// maxUnit is the maximum size of a unit with wanted code. The largest units of C++ and Rust
	// have some megabytes.
	maxUnit = 24 << 20
	// maxFunctions is the maximum number of ranges of addresses of its functions.
	maxFunctions = 1 << 18
	// maxInlined is the maximum number of functions that are inlined in each other.
	maxInlined = 128
)

// load returns the code of a unit.
func (t *Table) load(u *unit) (*code, error) {
	if known := t.codes[u]; known != nil {
		return known, known.damage()
	}
	c, err := t.decode(u)
	if failure(err) != nil || err == errBudget {
		return nil, err
	}
	size := len(c.b) + spanMemory*len(c.functions) + unitMemory
	if c.lines != nil {
		size += c.lines.memory()
	}
	t.budget.keep(t, size)
	t.codes[u] = c
	return c, c.damage()
}

// damage returns an error if the unit could not be decoded.
func (c *code) damage() error {
	if c.b == nil {
		return errDamaged
	}
	return nil
}

// decode finds the functions of a unit. If the unit is damaged, the code is empty.
func (t *Table) decode(u *unit) (*code, error) {
	c := &code{unit: u}
	size := u.end - u.entry
	if size > maxUnit {
		return c, errDamaged
	}
	b, err := t.info.bytes(u.entry, size)
	if err != nil {
		return c, err
	}
	if c.abbrevs, err = t.abbrevsOf(u, 0); err != nil {
		return c, err
	}
	err = t.walk(c, b, isFunction, func(at, _ int, e *entry) (bool, error) {
		if e.tag != tagSubprogram {
			return true, nil
		}
		err := t.rangesOf(u, e, func(start, end uint64) {
			if len(c.functions) < maxFunctions {
				c.functions = append(c.functions, span[int]{start: start, end: end, of: at})
			}
		})
		if err == errDamaged { // of one function
			err = nil
		}
		return true, err
	})
	if err != nil {
		return c, err
	}
	c.functions.sort()
	c.lines, err = t.readLines(u)
	if err == errDamaged { // there are names without lines
		err = nil
	}
	if err == nil {
		c.b = b
	}
	return c, err
}

func isFunction(tag uint64) bool { return tag == tagSubprogram }

func isCode(tag uint64) bool { return tag == tagSubprogram || tag == tagInlined }

// walk calls visit with the entry at the beginning of b and all below it, their places in b and
// their depths, until visit returns false. Entries that are not selected have no attributes.
func (t *Table) walk(c *code, b []byte, selected func(tag uint64) bool,
	visit func(at, depth int, e *entry) (more bool, err error),
) error {
	in := cursor{b: b, order: t.order}
	var e entry
	for depth := 0; ; {
		at := in.at
		cost := in.readEntry(c.abbrevs, c.unit.encoding, &e, selected)
		if in.short {
			return errDamaged
		}
		if err := t.budget.spend(cost); err != nil {
			return err
		}
		if e.tag == 0 {
			depth--
		} else {
			if more, err := visit(at, depth, &e); err != nil || !more {
				return err
			}
			if e.children {
				depth++
			}
		}
		if depth <= 0 {
			return nil
		}
	}
}

// frames returns the functions of a unit at an address.
func (t *Table) frames(c *code, pc uint64) (frames []Frame, err error) {
	position := c.lines.at(pc)
	found := c.functions.at(pc)
	if len(found) == 0 {
		// Assembly can have lines without functions. A unit for which the compiler wrote lines only
		// has none either, if nothing is inlined. If functions are in another file, the position
		// can belong to an inlined one.
		if c.unit.split || !position.known() {
			return nil, nil
		}
		return t.place(c, nil, position)
	}
	chain, err := t.inlined(c, found[0], pc)
	if err != nil {
		return nil, err
	}
	for i := len(chain) - 1; i >= 0; i-- {
		e := &chain[i]
		if frames, err = t.place(c, frames, position); err != nil {
			return nil, err
		}
		name, err := t.name(c.unit, e)
		// A symbol can have the name of the outermost.
		if err != nil && (i > 0 || err != errDamaged) {
			return nil, err
		}
		frames[len(frames)-1].Name = name
		position = row{}
		if e.has(slotCallFile) {
			position.file = uint32(e.values[slotCallFile].n)
			position.line = uint32(e.values[slotCallLine].n)
		}
	}
	return frames, nil
}

// frameWork is the cost of a frame, which callers keep, as they do its strings.
const frameWork = 1 << 10

// place adds a frame with a position.
func (t *Table) place(c *code, frames []Frame, position row) ([]Frame, error) {
	f := Frame{}
	if position.known() {
		file, err := t.file(c.unit, c.lines, position.file)
		if err != nil && err != errDamaged {
			return nil, err
		}
		if file != "" {
			f.File, f.Line = file, int(position.line)
		}
	}
	return append(frames, f), t.budget.spend(frameWork)
}

// inlined returns the entry of a function, and of the functions that are inlined in it at an
// address, the innermost last.
func (t *Table) inlined(c *code, at int, pc uint64) (chain []entry, err error) {
	innermost := -1 // depth
	err = t.walk(c, c.b[at:], isCode, func(_, depth int, e *entry) (bool, error) {
		if depth == 0 {
			chain = append(chain, *e)
			innermost = 0
			return e.children, nil
		}
		if depth <= innermost { // all functions that contain the address are found
			return false, nil
		}
		contains := false
		if e.tag == tagInlined {
			err := t.rangesOf(c.unit, e, func(start, end uint64) {
				contains = contains || start <= pc && pc < end
			})
			if err != nil {
				return false, err
			}
		}
		if contains {
			if len(chain) == maxInlined {
				return false, errDamaged
			}
			chain = append(chain, *e)
			innermost = depth
		}
		return true, nil
	})
	return chain, err
}

// maxOrigins is the maximum number of entries that describe a function together: code, its abstract
// function, and a declaration in a class.
const maxOrigins = 16

// name returns the name of a function as symbols have it or, if there is none, as the source has
// it.
func (t *Table) name(u *unit, e *entry) (name string, err error) {
	for range maxOrigins {
		if e.has(slotLinkage) {
			return t.text(u, e.values[slotLinkage])
		}
		if e.has(slotName) && name == "" {
			if name, err = t.text(u, e.values[slotName]); err != nil {
				return "", err
			}
		}
		reference := e.values[slotOrigin]
		if !e.has(slotOrigin) {
			reference = e.values[slotSpecification]
		}
		if reference.form == 0 && name != "" {
			return name, nil
		}
		if u, e, err = t.follow(u, reference); err != nil {
			return "", err
		}
	}
	return "", errDamaged
}

// follow returns the entry to which an attribute refers, and its unit.
func (t *Table) follow(u *unit, to value) (*unit, *entry, error) {
	at := u.offset + to.n
	switch to.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
	case formRefAddr:
		at = to.n
		if u = t.unitAt(at); u == nil {
			return nil, nil, errDamaged
		}
	default:
		return nil, nil, errDamaged
	}
	all, err := t.abbrevsOf(u, 0)
	if err != nil {
		return nil, nil, err
	}
	e := &entry{}
	if c := t.codes[u]; c != nil && c.b != nil && at >= u.entry && at < u.end {
		in := cursor{b: c.b[at-u.entry:], order: t.order}
		if err := t.budget.spend(in.readEntry(all, u.encoding, e, nil)); err != nil {
			return nil, nil, err
		}
		if in.short {
			return nil, nil, errDamaged
		}
		return u, e, nil
	}
	return u, e, t.readAt(u, all, at, e)
}
