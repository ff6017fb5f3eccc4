//go:build linux

package target

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/function"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gosource"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// FunctionSite is a site in a function: the place where calls are seen, or one of the returns.
type FunctionSite struct {
	*function.Function
	// Return means that the function returns at the site.
	Return bool
	// Args are the arguments of the site in the file, with the details that only functions have.
	// Fields are the fields of the structs to which they point.
	Args, Fields []function.Arg
	// Goid is the offset of goid in a g of the program, or 0 if it is unknown.
	Goid uint32

	specs map[spec.Spec]bool // the specs that select the site
}

// functions are the functions of a file that specs select.
type functions struct {
	program *function.Program
	sites   map[string]*FunctionSite // by functionKey
	goid    uint32
}

// functionKey identifies the site of a function.
func functionKey(p *sdt.Site) string { return fmt.Sprintf("%x %s", p.Offset, p.Name) }

// Function returns the FunctionSite of a site, or nil if the site is not in a function that was
// selected.
func (f *File) Function(p *sdt.Site) *FunctionSite {
	if f.functions == nil || p.Provider != spec.FunctionProvider {
		return nil
	}
	return f.functions.sites[functionKey(p)]
}

// HasFunctions reports whether the file has functions that specs select.
func (f *File) HasFunctions() bool { return f.functions != nil }

// Selects reports whether a spec selects a site of the file. A spec of functions selects only
// functions, and no other spec selects functions.
func (f *File) Selects(s spec.Spec, p *sdt.Site) bool {
	fn := f.Function(p)
	if fn != nil || s.Functions {
		return fn != nil && fn.specs[s]
	}
	return s.Match(p.Provider, p.Name)
}

// SelectFunctions makes the finder look for the functions that specs select: in the file that a
// spec names, or else in all. It keeps the reasons why earlier specs selected none. An open file
// gets the functions of new specs, and keeps the others.
func (f *Finder) SelectFunctions(specs []spec.Spec) {
	f.specs = slices.DeleteFunc(slices.Clone(specs), func(s spec.Spec) bool { return !s.Functions })
	if f.reasons == nil {
		f.reasons = map[string]error{}
	}
	for _, file := range f.byID {
		file.extend(f)
	}
}

// FunctionProblem returns the reason why no function was found for a spec, or nil if it is
// not known.
func (f *Finder) FunctionProblem(s spec.Spec) error { return f.reasons[s.String()] }

// explain keeps the reason why a spec selects nothing in a file. A reason from a Go program
// replaces the reason that a library is not a Go program.
func (f *Finder) explain(s spec.Spec, err error) {
	if old := f.reasons[s.String()]; old == nil || errors.Is(old, gotable.ErrNoTable) {
		f.reasons[s.String()] = err
	}
}

// functionSpecs returns the specs whose functions are looked for in a file.
func (f *Finder) functionSpecs(file *File) []spec.Spec {
	return slices.DeleteFunc(slices.Clone(f.specs), func(s spec.Spec) bool {
		elsewhere := s.File != "" && !file.isAt(s.File)
		return elsewhere || s.Executable != "" && !file.isNamed(s.Executable)
	})
}

// isAt reports whether a path leads to the file, as Open finds it.
func (f *File) isAt(path string) bool {
	info, err := stall.Stat(Locate(path))
	return err == nil && f.Is(info)
}

// isNamed reports whether a pattern matches the name of the file, without its directory. A file
// that was deleted has the name that it had.
func (f *File) isNamed(pattern string) bool {
	ok, _ := path.Match(pattern, path.Base(strings.TrimSuffix(f.Path, proc.Deleted)))
	return ok
}

// readFunctions adds the functions that specs select to the probes of a file.
func (f *File) readFunctions(finder *Finder) {
	f.functions, f.asked = nil, finder.functionSpecs(f)
	f.addFunctions(finder, f.asked)
}

// extend adds the functions of specs that the finder has got since the file was read.
func (f *File) extend(finder *Finder) {
	more := slices.DeleteFunc(finder.functionSpecs(f), func(s spec.Spec) bool {
		return slices.Contains(f.asked, s)
	})
	if len(more) == 0 || f.Changed() {
		return
	}
	defer f.Charge(time.Now())
	before := len(f.Probes)
	f.addFunctions(finder, more)
	f.asked = append(f.asked, more...)
	cost := probeSize * int64(len(f.Probes)-before)
	if !f.owner.affords(cost, skipProbes) {
		f.Probes, cost = f.Probes[:before], 0
	}
	f.cost += cost
	f.owner.add(cost)
}

// addFunctions adds the functions that specs select to the probes of a file. It keeps the reasons
// why specs select none, unless the file could not be read.
func (f *File) addFunctions(finder *Finder, specs []spec.Spec) {
	if len(specs) == 0 {
		return
	}
	found := f.functions
	var err error
	if found == nil {
		found = &functions{sites: map[string]*FunctionSite{}}
		found.program, err = function.Open(f.content, f.separate)
		if err == nil {
			found.program.Source = f.sources(&finder.Source, found.program)
		}
		if err == nil && finder.leases != nil {
			err = found.program.Runs(machine)
		}
	}
	selected, reasons := make([][]*function.Function, len(specs)), make([]error, len(specs))
	for i, one := range specs {
		if reasons[i] = err; err == nil {
			selected[i], reasons[i] = selects(found.program, one, finder.MaxFunctions)
		}
	}
	if err == nil {
		found.program.Describe(slices.Concat(selected...))
		found.goid = goidOffsets[found.program.Release()]
		defer found.program.Forget()
	}
	said := remarks{inlined: map[string]int{}}
	for i, one := range specs {
		has, reason := f.addSelected(found, selected[i], one, finder.leases != nil, &said)
		if reason = cmp.Or(reasons[i], reason); reason == nil || f.Stalled() {
			continue
		}
		finder.explain(one, reason)
		if !has && finder.Lacks != nil {
			finder.Lacks(f, one, reason)
		}
	}
	if len(found.sites) == 0 {
		return
	}
	f.functions = found
	if errors.Is(f.Problem, sdt.ErrNoProbes) {
		f.Problem = nil
	}
	f.Problem = errors.Join(f.Problem, inlinedProblem(said.inlined), said.guessed, said.refused)
}

// remarks are what is to be said of the functions that specs select.
type remarks struct {
	inlined          map[string]int // the numbers of functions that have inlined one
	guessed, refused error
}

// addSelected adds the functions that a spec selects to the probes of a file, and reports whether
// there are any. reason is why one is left out, or nil. traced means that they will be attached to.
func (f *File) addSelected(
	found *functions, selected []*function.Function, by spec.Spec, traced bool, said *remarks,
) (has bool, reason error) {
	for _, fn := range selected {
		if fn.Inlined > 0 {
			said.inlined[fn.Name] = fn.Inlined
		}
		if s := fn.Statement; s != nil && s.Refused != nil && traced {
			said.refused = fmt.Errorf("%s is not seen in %s: %w", fn.Name, s.In[0], s.Refused)
			reason = s.Refused
			continue
		} else if s != nil && s.Guessed {
			said.guessed = errGuessed
		}
		if err := f.addFunction(found, fn, by); err != nil {
			reason = fmt.Errorf("the returns of %s are not seen: %w", fn.Name, err)
			continue
		}
		has = true
	}
	return has, reason
}

// sources returns how the source of the file is found.
func (f *File) sources(in *gosource.Finder, program *function.Program) function.Source {
	stat, err := f.content.stat()
	of := gosource.Program{Version: program.Version(), Built: time.Unix(stat.Mtim.Unix())}
	return func(path string) (*gosource.File, error) {
		if err != nil {
			return nil, err
		}
		return in.Find(of, path)
	}
}

// selects returns the functions or the statements that a spec selects.
func selects(program *function.Program, one spec.Spec, most int) ([]*function.Function, error) {
	if one.IsLine() {
		return program.FindLines(one.Pattern, one.Lines, most)
	}
	return program.Find(one.Pattern, most)
}

// TypeNames returns the names of the file's Go types, by their addresses. The file must have
// selected functions.
func (f *File) TypeNames() value.Names { return f.functions.program }

// addFunction adds the sites of a function that a spec selects.
func (f *File) addFunction(found *functions, fn *function.Function, by spec.Spec) error {
	name, at, args, fields := fn.Name, []function.Site{fn.Call}, fn.Args, fn.Fields
	if by.Returns {
		returns, err := fn.Returns()
		if err != nil {
			return err
		}
		name, at, args = fn.Name+spec.ReturnSuffix, returns, fn.Results
		fields = fn.ResultFields
	}
	for _, place := range at {
		site := sdt.Site{
			Provider: spec.FunctionProvider, Name: name,
			Address: place.Address, Offset: place.Offset,
		}
		for _, a := range args {
			site.Args = append(site.Args, a.Arg)
		}
		key := functionKey(&site)
		if found.sites[key] == nil {
			found.sites[key] = &FunctionSite{
				Function: fn, Return: by.Returns, Args: args, Fields: fields,
				Goid: found.goid, specs: map[spec.Spec]bool{},
			}
			f.Probes = append(f.Probes, site)
		}
		found.sites[key].specs[by] = true
	}
	return nil
}

// errGuessed warns of lines of a program without DWARF.
var errGuessed = errors.New("without DWARF it is unknown where a statement begins, so a line can have more or fewer events than executions")

// inlinedProblem returns an error that names the functions with calls that are not seen, or nil
// if there are none.
func inlinedProblem(callers map[string]int) error {
	if len(callers) == 0 {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(callers)) {
		names = append(names, fmt.Sprintf("%s in %d", name, callers[name]))
	}
	return fmt.Errorf("not every call is seen, because the compiler has inlined functions in others, at least %s", text.Some(names, 5))
}
