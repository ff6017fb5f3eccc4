package function

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

const (
	// maxDWARF is the maximum number of bytes of DWARF that are read. The largest Go programs have some 100 MB.
	maxDWARF = 256 << 20
	// functionWork and typeWork limit the work of reading it, in the unit of debuginfo.Entries: each takes about
	// 0.2 seconds. rangeWork is the maximum number of ranges of units that are read.
	functionWork = 1 << 22
	typeWork     = 1 << 21
	rangeWork    = 1 << 18
)

var errNoDWARF = errors.New("the program has no DWARF: it was linked with -w or -s, or stripped")

// signature is the description of a function in DWARF.
type signature struct {
	params, results []param
}

type param struct {
	name string
	typ  *goType
}

// debugging reads the DWARF of a program.
type debugging struct {
	*debuginfo.Data
	err     error // the reason why there is no DWARF, or nil
	entries debuginfo.Entries
	types   types
	ranges  int // the number of ranges that may still be read
}

func newDebugging(f *elf.File) *debugging {
	d := &debugging{ranges: rangeWork}
	d.Data, d.err = debuginfo.Read(f, maxDWARF)
	switch {
	case d.err != nil || d.Data != nil:
	case slices.ContainsFunc(f.Sections, func(s *elf.Section) bool { return strings.HasPrefix(s.Name, ".zdebug_") }):
		d.err = errors.New("its DWARF is compressed in a way that is not read")
	default:
		d.err = errNoDWARF
	}
	if d.err == nil {
		d.entries = debuginfo.Entries{R: d.Reader(), Left: functionWork}
		d.types = types{debuginfo.Entries{R: d.Reader(), Left: typeWork}}
	}
	return d
}

// signatures reads the signatures of functions and returns them by entry. errs holds the errors of the others.
func (d *debugging) signatures(fns []*Function) (found map[uint64]*signature, errs map[uint64]error) {
	found, errs = map[uint64]*signature{}, map[uint64]error{}
	if d.err != nil {
		for _, fn := range fns {
			errs[fn.Entry] = d.err
		}
		return found, errs
	}
	wanted := map[uint64]bool{}
	packages := map[string]bool{}
	for _, fn := range fns {
		wanted[fn.Entry] = true
		packages[packageOf(fn.Name)] = true
	}
	// Most functions are in the unit of their package. Instances of generic functions are in units that use them.
	var err error
	for _, named := range []bool{true, false} {
		for _, u := range d.Units {
			if len(wanted) == 0 || err != nil {
				break
			}
			err = d.unit(u, named, packages, wanted, func(entry uint64, s *signature, err error) {
				delete(wanted, entry)
				found[entry], errs[entry] = s, err
			})
		}
	}
	if err == nil {
		err = errors.New("its DWARF does not describe the function")
	}
	for entry := range wanted {
		errs[entry] = err
	}
	return found, errs
}

// packageOf returns the path of the package of a function.
func packageOf(name string) string {
	if i := strings.IndexByte(name, '['); i >= 0 {
		name = name[:i]
	}
	slash := strings.LastIndexByte(name, '/') + 1
	if dot := strings.IndexByte(name[slash:], '.'); dot >= 0 {
		name = name[:slash+dot]
	}
	return strings.ReplaceAll(name, "%2e", ".")
}

// unit reads the functions of a unit if it is named like one of the packages or, if named is false, if it
// has the address of a wanted function.
func (d *debugging) unit(u debuginfo.Unit, named bool, packages map[string]bool, wanted map[uint64]bool, found func(uint64, *signature, error)) error {
	root, err := d.entries.At(u.Entry)
	if err != nil || root == nil || !root.Children || root.Tag != dwarf.TagCompileUnit {
		return err
	}
	name, _ := root.Val(dwarf.AttrName).(string)
	if packages[name] != named {
		return nil
	}
	if !named && !d.has(root, wanted) {
		return nil
	}
	d.entries.R.Seek(u.Entry)
	if _, err := d.entries.Next(); err != nil {
		return err
	}
	for {
		e, err := d.entries.Next()
		if err != nil {
			return err
		}
		if e == nil || e.Tag == 0 {
			return nil
		}
		low, ok := e.Val(dwarf.AttrLowpc).(uint64)
		if ok && e.Tag == dwarf.TagSubprogram && wanted[low] {
			s, err := d.signature(e)
			if errors.Is(err, debuginfo.ErrBudget) {
				return err
			}
			found(low, s, err)
			continue
		}
		// A sibling attribute could lead anywhere.
		if err := d.entries.Children(e, func(*dwarf.Entry) {}); err != nil {
			return err
		}
	}
}

// has reports whether a unit contains one of the addresses.
func (d *debugging) has(root *dwarf.Entry, addresses map[uint64]bool) bool {
	if d.ranges <= 0 {
		return false
	}
	ranges, err := d.Ranges(root)
	d.ranges -= len(ranges) + 1
	if err != nil {
		return false
	}
	for _, r := range ranges {
		for at := range addresses {
			if at >= r[0] && at < r[1] {
				return true
			}
		}
	}
	return false
}

// signature reads all children of a function's entry, including its parameters, which come next.
func (d *debugging) signature(e *dwarf.Entry) (*signature, error) {
	s := &signature{}
	var wrong error
	err := d.entries.Children(e, func(c *dwarf.Entry) {
		if c.Tag == dwarf.TagFormalParameter && wrong == nil {
			wrong = s.add(&d.types, c)
		}
	})
	if err == nil && errors.Is(wrong, debuginfo.ErrBudget) {
		err = wrong
	}
	if err != nil {
		return nil, err
	}
	return s, wrong
}

// add adds a parameter or a result.
func (s *signature) add(t *types, e *dwarf.Entry) error {
	name, isName := e.Val(dwarf.AttrName).(string)
	at, isType := e.Val(dwarf.AttrType).(dwarf.Offset)
	result, isResult := e.Val(dwarf.AttrVarParam).(bool)
	if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
		abstract, err := t.entries.At(origin)
		if err != nil || abstract == nil || abstract.Tag != dwarf.TagFormalParameter {
			return errors.Join(errType, err)
		}
		name, isName = abstract.Val(dwarf.AttrName).(string)
		at, isType = abstract.Val(dwarf.AttrType).(dwarf.Offset)
		result, isResult = abstract.Val(dwarf.AttrVarParam).(bool)
	}
	if !isName || !isType {
		return fmt.Errorf("%w: that of the parameter %.64q", errType, name)
	}
	typ, err := t.read(at, toFields, 0)
	if err != nil {
		return fmt.Errorf("the parameter %.64q: %w", name, err)
	}
	if len(name) > maxName {
		name = name[:maxName]
	}
	// The compiler lists some results twice.
	same := func(q param) bool { return q.name == name && name != "_" }
	if slices.ContainsFunc(s.params, same) || slices.ContainsFunc(s.results, same) {
		return nil
	}
	if isResult && result {
		s.results = append(s.results, param{name, typ})
	} else {
		s.params = append(s.params, param{name, typ})
	}
	return nil
}
