//go:build linux

package list

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/function"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// maxListed is the maximum number of functions that a pattern selects. Listing 10,000 takes a few
// seconds.
const maxListed = 1 << 16

// runFunctions shows the functions that specs select in the processes of a target, or in files.
func runFunctions(
	to *console.Console, where query.Target, specs []spec.Spec, paths []string, o Options,
) error {
	if where.All || (len(where.PIDs) > 0) == (len(paths) > 0) || o.From.Given() {
		return query.Usagef("list looks for the functions %v in either -p PID or FILE...", specs[0])
	}
	l := &lister{target: where, options: o, functions: true}
	finder, err := newFinder(&where)
	if err != nil {
		return err
	}
	defer finder.Debug.Close()
	defer finder.Close()
	finder.SelectFunctions(specs)
	finder.MaxFunctions = maxListed
	found, err := l.find(finder, paths)
	if err == nil {
		err = l.checkDebugFiles(finder, found)
	}
	if err != nil {
		return err
	}
	if len(found.Files) == 0 && found.Refused != nil {
		return found.Refused
	}
	for _, err := range finder.Skips().Unsaid() {
		to.Warn("%v", err)
	}
	out := &printer{Writer: bufio.NewWriter(to.Out), Options: &o}
	shown := map[string]bool{}
	for _, f := range found.Files {
		fns := functionsOf(f, specs, shown)
		if len(fns) == 0 {
			continue
		}
		if pids := pidsOf(found.Uses[f]); o.Format.IsJSON() {
			functionsJSON(out, f.Path, pids, fns)
		} else {
			out.functions(mapped(f.Path, pids), fns)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return missing(to, finder, found, specs, shown)
}

// missing returns an error for the first spec that is not among those that shown holds, because it
// selects no function. That all calls of a function were inlined is a warning if others are shown.
func missing(
	to *console.Console, finder *target.Finder, found *probes.Found, specs []spec.Spec,
	shown map[string]bool,
) error {
	for _, spec := range specs {
		if shown[spec.String()] {
			continue
		}
		err := finder.FunctionProblem(spec)
		switch {
		case found.PutOff != nil:
			return found.PutOff
		case err == nil:
			return fmt.Errorf("%w: no file there has %v", query.ErrNothing, spec)
		case len(shown) > 0 && errors.Is(err, function.ErrInlined):
			to.Warn("%v: %v", spec, err)
		default:
			return fmt.Errorf("%w: %v: %w", query.ErrNothing, spec, err)
		}
	}
	return nil
}

// functionsOf returns the functions of a file, sorted by name, and records in shown which specs
// select a function.
func functionsOf(
	f *target.File, specs []spec.Spec, shown map[string]bool,
) (fns []*function.Function) {
	seen := map[uint64]bool{}
	for i := range f.Probes {
		fn := f.Function(&f.Probes[i])
		if fn == nil {
			continue
		}
		for _, s := range specs {
			if f.Selects(s, &f.Probes[i]) {
				shown[s.String()] = true
			}
		}
		if !seen[fn.Entry] {
			seen[fn.Entry] = true
			fns = append(fns, fn.Function)
		}
	}
	slices.SortStableFunc(fns, func(a, b *function.Function) int {
		if a.Statement != nil && b.Statement != nil {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return fns
}

func pidsOf(uses []probes.Use) []int {
	pids := []int{}
	for _, u := range uses {
		pids = append(pids, u.PID)
	}
	return pids
}

func (o *printer) functions(heading string, fns []*function.Function) {
	o.heading(heading)
	for _, fn := range fns {
		if fn.Statement != nil {
			o.statement(fn)
			continue
		}
		fmt.Fprintf(
			o,
			"  %s:%s%s  # %s:%d\n",
			spec.FunctionProvider,
			render.Printable(fn.Name),
			render.Printable(fn.Signature),
			render.Printable(fn.File),
			fn.Line,
		)
		if !o.Verbose {
			continue
		}
		fmt.Fprintf(o, "      calls at %#x, %v\n", fn.Call.Offset, fn.Place)
		switch returns, err := fn.Returns(); {
		case err != nil:
			fmt.Fprintf(o, "      returns are not seen: %v\n", err)
		case len(returns) == 1:
			fmt.Fprintf(o, "      returns at %#x\n", returns[0].Offset)
		default:
			fmt.Fprintf(o, "      returns at %d instructions, the first at %#x\n", len(returns), returns[0].Offset)
		}
		if fn.ArgsErr != nil {
			fmt.Fprintf(o, "      no arguments: %v\n", fn.ArgsErr)
		}
		if fn.Inlined > 0 {
			fmt.Fprintf(o, "      inlined in %s at least, whose calls are not seen\n", render.Number(fn.Inlined, "function"))
		}
		printOperands(o, "argument", fn.Args)
		printOperands(o, "field", fn.Fields)
		printOperands(o, "result", fn.Results)
		printOperands(o, "field", fn.ResultFields)
	}
}

// statement prints a statement of a line.
func (o *printer) statement(fn *function.Function) {
	s := fn.Statement
	what := s.In[0]
	if len(s.In) > 1 {
		what += ", inlined in " + s.In[len(s.In)-1]
	}
	price := "single-stepped"
	if s.Emulated {
		price = "emulated"
	}
	if s.Loop {
		price += ", in a loop"
	}
	if s.Guessed {
		price += ", guessed: without DWARF"
	}
	if s.Refused != nil {
		price = fmt.Sprintf("not seen: %v", s.Refused)
	}
	fmt.Fprintf(o, "  %s:%s  # %s (%s)\n", spec.FunctionProvider,
		render.Printable(fn.Name), render.Printable(what), price)
	if fn.ArgsErr != nil {
		fmt.Fprintf(o, "      no variables: %v\n", fn.ArgsErr)
	}
	var lost []string
	for _, v := range s.Variables {
		if v.Err != nil {
			lost = append(lost, fmt.Sprintf("%s (%v)", v.Name, v.Err))
			continue
		}
		old := ""
		if v.Unsure != nil {
			old = fmt.Sprintf("  # may be old: %v", v.Unsure)
		}
		fmt.Fprintf(o, "      %s %s%s\n", render.Printable(v.Name), render.Printable(v.Type), old)
	}
	if len(lost) > 0 {
		fmt.Fprintf(o, "      not read: %s\n", render.Printable(strings.Join(lost, ", ")))
	}
	if o.Verbose {
		fmt.Fprintf(o, "      %s:%d, at %#x, %v\n", render.Printable(fn.File), fn.Line, fn.Call.Offset, fn.Place)
		printOperands(o, "argument", fn.Args)
		printOperands(o, "field", fn.Fields)
	}
}

// printOperands prints the places from which arguments are read.
func printOperands(out *printer, kind string, args []function.Arg) {
	for _, a := range args {
		name := render.Printable(a.Name)
		switch {
		case a.Err != nil:
			fmt.Fprintf(out, "      %s %s cannot be read: %v\n", kind, name, a.Err)
		case a.Operand.Kind == sdt.OperandVector:
			fmt.Fprintf(out, "      %s %s cannot be read: the kernel does not show the register %s\n", kind, name, a.Operand.Text)
		case a.Length != nil:
			fmt.Fprintf(out, "      %s %s at %s, with its length at %s\n", kind, name, a.Operand.Text, a.Length.Text)
		default:
			fmt.Fprintf(out, "      %s %s at %s\n", kind, name, a.Operand.Text)
		}
	}
}

var places = map[function.Place]string{
	function.AtEntry:  "entry",
	function.AtPush:   "push",
	function.AtBranch: "branch",

	function.AtStatement: "statement",
}

func functionsJSON(out *printer, path string, pids []int, fns []*function.Function) {
	encoder := render.NewEncoder(out)
	for _, fn := range fns {
		j := JSONFunction{
			File: path, Provider: spec.FunctionProvider, Probe: fn.Name, Signature: fn.Signature,
			Source: fn.File, Line: fn.Line,
			Place: places[fn.Place], Offset: fn.Call.Offset, Returns: []uint64{},
			Inlined: fn.Inlined, PIDs: pids,
		}
		if s := fn.Statement; s != nil {
			j.In, j.Loop, j.Stepped, j.Refused = s.In, s.Loop, !s.Emulated, message(s.Refused)
			for _, v := range s.Variables {
				j.Variables = append(j.Variables, variable{
					argument{v.Name, v.Type}, message(v.Err), message(v.Unsure),
				})
			}
		}
		returns, err := fn.Returns()
		for _, r := range returns {
			j.Returns = append(j.Returns, r.Offset)
		}
		j.ReturnsError, j.ArgumentsError = message(err), message(fn.ArgsErr)
		_ = encoder.Encode(j) // Flush returns the error
	}
}

// message returns the message of an error, or "".
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
