//go:build linux

package source

// Tags of entries.
const (
	tagParameter  = 0x05
	tagBlock      = 0x0b
	tagInlined    = 0x1d
	tagSubprogram = 0x2e
	tagVariable   = 0x34
)

// slot is the place of a wanted attribute in an entry.
type slot int

const (
	slotName slot = iota
	slotLines
	slotLow
	slotHigh
	slotSplit
	slotDirectory
	slotOrigin
	slotSpecification
	slotRanges
	slotCallFile
	slotCallLine
	slotLinkage
	slotStringBase
	slotAddressBase
	slotRangeBase
	slotLocation
	slotLocationBase
	slotType
	slotLine
	slotResult
	slotCaptured
	slotProducer
	slots
)

// wanted are the attributes that are read.
var wanted = map[uint64]slot{
	0x02: slotLocation, 0x3b: slotLine, 0x49: slotType, 0x4b: slotResult,
	0x8c: slotLocationBase, 0x2907: slotCaptured, // DW_AT_go_closure_offset
	0x03: slotName, 0x10: slotLines, 0x11: slotLow, 0x12: slotHigh, 0x1b: slotDirectory,
	0x25: slotProducer,
	0x31: slotOrigin, 0x47: slotSpecification, 0x55: slotRanges,
	0x58: slotCallFile, 0x59: slotCallLine, 0x6e: slotLinkage, 0x72: slotStringBase,
	0x73: slotAddressBase, 0x74: slotRangeBase, 0x76: slotSplit,
	0x2007: slotLinkage,     // DW_AT_MIPS_linkage_name
	0x2130: slotSplit,       // DW_AT_GNU_dwo_name
	0x2133: slotAddressBase, // DW_AT_GNU_addr_base
}

// entry is an entry with its wanted attributes.
type entry struct {
	tag      uint64
	children bool
	values   [slots]value
}

// has reports whether an entry has an attribute.
func (e *entry) has(s slot) bool { return e.values[s].form != 0 }

// abbrev describes entries of a kind.
type abbrev struct {
	code, tag uint64
	children  bool
	attrs     []attr
	size      int // of such an entry without its code, or -1 if it differs
}

type attr struct {
	slot     slot // -1 if it is not wanted
	form     form
	size     int
	implicit uint64
}

// abbrevs are the abbreviations of a table, by their codes, which are usually 1, 2 and so on.
type abbrevs struct {
	dense  []abbrev
	others map[uint64]*abbrev
}

func (a *abbrevs) find(code uint64) *abbrev {
	if code-1 < uint64(len(a.dense)) {
		return &a.dense[code-1]
	}
	return a.others[code]
}

const (
	// maxTable is the maximum size of a table of abbreviations.
	maxTable = 1 << 20
	// maxAttributes is the maximum number of attributes of an abbreviation.
	maxAttributes = 128
	attrMemory    = 32
)

// readAbbrev reads an abbreviation, whose code is 0 at the end of the table.
func (c *cursor) readAbbrev(e encoding) (a abbrev) {
	if a.code = c.uleb(); a.code == 0 {
		return a
	}
	a.tag = c.uleb()
	a.children = c.uint(1) != 0
	for !c.short {
		name, f := c.uleb(), form(c.uleb())
		if name == 0 && f == 0 {
			return a
		}
		if len(a.attrs) == maxAttributes {
			break
		}
		at := attr{slot: -1, form: f, size: e.size(f)}
		if s, ok := wanted[name]; ok {
			at.slot = s
		}
		if f == formImplicitConst {
			at.implicit = uint64(c.sleb())
		}
		if at.size < 0 {
			a.size = -1
		} else if a.size >= 0 {
			a.size += at.size
		}
		a.attrs = append(a.attrs, at)
	}
	c.end()
	return a
}

// abbrevsOf returns the abbreviations of a unit, or only the one with a code, if that is not 0.
func (t *Table) abbrevsOf(u *unit, only uint64) (*abbrevs, error) {
	key := abbrevsKey{u.abbrev, u.encoding}
	if known := t.abbrevs[key]; known != nil {
		return known, nil
	}
	for n := uint64(window); ; n *= 4 {
		b, err := t.abbrev.from(u.abbrev, n)
		if err != nil {
			return nil, err
		}
		b = b[:min(len(b), maxTable)]
		all, size, err := t.decodeAbbrevs(b, u.encoding, only)
		if err == errDamaged && n < maxTable {
			continue
		}
		if err == nil && only == 0 {
			t.budget.keep(t, size)
			t.abbrevs[key] = all
		}
		return all, err
	}
}

type abbrevsKey struct {
	at uint64
	encoding
}

func (t *Table) decodeAbbrevs(
	b []byte, e encoding, only uint64,
) (all *abbrevs, size int, err error) {
	c := cursor{b: b, order: t.order}
	all = &abbrevs{others: map[uint64]*abbrev{}}
	for {
		a := c.readAbbrev(e)
		if c.short {
			return nil, 0, errDamaged
		}
		if a.code == 0 {
			return all, size, nil
		}
		cost := attrMemory * (4 + len(a.attrs))
		if err := t.budget.spend(cost); err != nil {
			return nil, 0, err
		}
		size += cost
		switch {
		case only != 0 && a.code != only:
			continue
		case a.code == uint64(len(all.dense))+1:
			all.dense = append(all.dense, a)
		default:
			all.others[a.code] = &a
		}
		if only != 0 {
			return all, size, nil
		}
	}
}

// readEntry reads an entry, and returns the cost of reading it. The tag is 0 at the end of a list
// of children. The attributes of entries that visit does not select are skipped.
func (c *cursor) readEntry(
	all *abbrevs, e encoding, out *entry, visit func(tag uint64) bool,
) (cost int) {
	code := c.uleb()
	if code == 0 || c.short {
		*out = entry{}
		return 1
	}
	a := all.find(code)
	if a == nil {
		c.end()
		*out = entry{}
		return 1
	}
	if visit != nil && !visit(a.tag) {
		out.tag, out.children = a.tag, a.children
		return c.skipEntry(a, e)
	}
	*out = entry{tag: a.tag, children: a.children}
	for i := range a.attrs {
		at := &a.attrs[i]
		v := c.read(at.form, at.size, e)
		if at.form == formImplicitConst {
			v.n = at.implicit
		}
		if at.slot >= 0 {
			out.values[at.slot] = v
		}
	}
	return 1 + len(a.attrs)
}

func (c *cursor) skipEntry(a *abbrev, e encoding) (cost int) {
	if a.size >= 0 {
		c.skip(uint64(a.size))
		return 1
	}
	for i := range a.attrs {
		if at := &a.attrs[i]; at.size >= 0 {
			c.skip(uint64(at.size))
		} else {
			c.read(at.form, at.size, e)
		}
	}
	return 1 + len(a.attrs)
}
