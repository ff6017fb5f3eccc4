//go:build linux

package bpf

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Arg is an argument of a probe.
type Arg struct {
	sdt.Arg
	// Delta is the distance from the site to the symbol of the operand, if it has one. For a
	// Dynamic argument, it is the address of the site in its file.
	Delta int64
	// Length is the operand with the length of a Go string or []byte, or nil. The argument's
	// operand then holds the address of the bytes. InPlace means that the operand is the bytes
	// themselves, in memory.
	Length  *sdt.Operand
	InPlace bool
	// Dynamic means that the operand is the first word of a Go interface. The argument is the type
	// of its value, as an address of the file, or 0 for nil. For an interface with Methods, the
	// type is in a table.
	Dynamic, Methods bool
	// Data is the operand of the second word of an interface, or nil. It points to a Go string if
	// the type is one of Texts.
	Data  *sdt.Operand
	Texts []uint64
	// Names has the names of the types, if the argument is Dynamic.
	Names value.Names
	// Ext is the operand of the field ext of a time.Time, or nil. The argument's operand is then
	// the field wall, and the argument is a number of nanoseconds since 1970.
	Ext *sdt.Operand
	// Constants are the names of values of the argument's type, or nil. Expressions may use them.
	Constants value.Constants
	// Capacity means that the argument is the capacity of a slice, which only details show.
	Capacity bool
	// Alias is another name of the argument, or "".
	Alias string
	// Pointer is the operand with a pointer, or nil if the argument is not reached through one. The
	// operands of the argument are then relative to the pointer's target, and have a displacement
	// only.
	Pointer *sdt.Operand
}

// ArgName returns the name of the i-th argument, or argI if it has no name.
func (p *Probe) ArgName(i int) string {
	if name := p.Args[i].Name; name != "" {
		return name
	}
	return fmt.Sprintf("arg%d", i)
}

// arg returns an argument by its index, or a field by its index plus the number of arguments.
func (p *Probe) arg(i int) *Arg {
	if i >= len(p.Args) {
		return &p.Fields[i-len(p.Args)]
	}
	return &p.Args[i]
}

// Probe describes the sites that one program serves: all sites of a probe with the same operands
// and types.
type Probe struct {
	Provider, Name string
	Args           []Arg
	// Fields are the fields of structs to which arguments of functions point. Programs read a field
	// if an expression names it.
	Fields []Arg
	// ArgsErr is the reason that the arguments are unknown, or nil.
	ArgsErr error
	// Function is the place in a Go function that is probed, or nil if the probe is not a function.
	Function *FunctionSite
	// Restarts means that the site is the branch of a stack check. If the branch is taken, the
	// function starts again, and this is not an event.
	Restarts bool
	// Nop is the name of the nop at the sites of a note, or "" if there is another instruction.
	Nop string
	// Start is the start of the operation that the probe ends, in the same file, if it is needed.
	// A start that is needed has itself here.
	Start *Probe
	// Started makes the time since the start, and arguments of it, variables of an end. It is nil
	// for other probes, and for an end that needs none of them.
	Started *Started
	// timed makes the time since the start a variable of the end of a Latency.
	timed bool
}

// FunctionSite is the place in a function where a probe is.
type FunctionSite struct {
	// Return means that the place is a return of the function. Push means that it is the push after
	// the stack check.
	Return, Push bool
	// Emulated means that the kernel emulates the instruction with which a statement begins. Framed
	// means that the frame of its function exists.
	Emulated, Framed bool
	// Loop means that the statement can be executed again before its function returns.
	Loop bool
	// Endless means that no return of the function can be seen.
	Endless bool
	// Goid is the offset of goid in a g of the program, or 0 if it is unknown.
	Goid uint32
	// Unread are the reasons why variables at a line are not read, and Unsure those why they may
	// have old values, by their names.
	Unread, Unsure map[string]error
}

// InLoop reports whether the probe is a line in a loop.
func (p *Probe) InLoop() bool { return p.Function != nil && p.Function.Loop }

// Key is equal for probes that differ only in their sites: a program that was generated for one of
// them reads the arguments of the others correctly. Types are compared by their layouts, because
// two versions of a program give one name to different structs.
func (p *Probe) Key() string {
	var b strings.Builder
	switch {
	case p.Start == p:
		b.WriteString("start ")
	case p.Start != nil:
		fmt.Fprintf(&b, "after %s ", p.Start.Key())
	}
	fmt.Fprintf(&b, "%s %q %q %t", p.Instruction(), p.Provider, p.Name, p.Restarts)
	if p.Function != nil {
		fmt.Fprintf(&b, " %d %t %t", p.Function.Goid, p.Function.Endless, p.Function.Framed)
	}
	for i := range len(p.Args) + len(p.Fields) {
		a := p.arg(i)
		fmt.Fprintf(
			&b,
			" %q %d %q %d %t %t %t %t ",
			a.Operand.Text,
			a.Delta,
			a.Name,
			a.Size,
			a.Signed,
			a.Float,
			a.Dynamic,
			a.Methods,
		)
		fmt.Fprintf(&b, "%t ", a.InPlace)
		if a.Dynamic {
			fmt.Fprintf(&b, "%p ", a.Names)
		}
		writeLayout(&b, a.Type, true)
		if len(a.Constants) > 0 {
			fmt.Fprintf(&b, " %v", a.Constants)
		}
		if a.Length != nil {
			fmt.Fprintf(&b, " %q", a.Length.Text)
		}
		if a.Data != nil {
			fmt.Fprintf(&b, " %q %x", a.Data.Text, a.Texts)
		}
		if a.Ext != nil {
			fmt.Fprintf(&b, " time %q", a.Ext.Text)
		}
		if a.Pointer != nil {
			fmt.Fprintf(&b, " *%q", a.Pointer.Text)
		}
	}
	return b.String()
}

// writeLayout writes all parts of a type that a program reads or that affect its output. It follows
// the pointer of an argument. A program reads at most a string through the pointers in the target.
func writeLayout(b *strings.Builder, t *sdt.Type, follow bool) {
	if t == nil {
		b.WriteByte('?')
		return
	}
	fmt.Fprintf(b, "%q %d %d %d", t.Name, t.Kind, t.Size, t.Count)
	switch {
	case t.Kind == sdt.KindPointer && !follow:
		fmt.Fprintf(b, "*%q %t", t.Elem, t.IsString())
	case t.Kind == sdt.KindPointer:
		b.WriteByte('*')
		writeLayout(b, t.Elem, false)
	case t.Kind == sdt.KindArray:
		writeLayout(b, t.Elem, false)
	}
	for _, f := range t.Fields {
		fmt.Fprintf(b, "{%q %d %d %d ", f.Name, f.Offset, f.BitOffset, f.BitSize)
		writeLayout(b, f.Type, false)
		b.WriteByte('}')
	}
}

// String returns PROVIDER:NAME.
func (p *Probe) String() string { return p.Provider + ":" + p.Name }

// sourceKind is the kind of a source.
type sourceKind uint8

const (
	fromArg    sourceKind = iota // the value of an argument
	fromText                     // the string that an argument points to
	fromLength                   // the length of a Go string that is not read
	fromPID
	fromTID
	fromCPU
	fromUID
	fromCgroup
	fromComm
	fromExecutable
	fromNamespace // the namespace of the pod
	fromPod
	fromContainer
	fromWorkload
	fromNode
	fromGoroutine // only in records
	fromCall      // only in records
	fromStack     // only in records
	fromFailed    // whether a function has returned an error
	fromElapsed   // the time since the start, from Started
	fromStart     // a value that the start has kept, by its index in Latency.Open
)

// origin is the origin of a variable's value.
type origin struct {
	kind sourceKind
	arg  int // the index for Probe.arg, or another one
}

// variables are the variables that the expressions of a probe may use.
type variables struct {
	vars    []expr.Var
	sources []origin
}

func (v *variables) add(name string, t expr.Type, s origin) {
	v.vars = append(v.vars, expr.Var{Name: name, Type: t})
	v.sources = append(v.sources, s)
}

// has reports whether there is a variable of a name.
func (v *variables) has(name string) bool {
	return slices.ContainsFunc(v.vars, func(one expr.Var) bool { return one.Name == name })
}

// addArg adds an argument or a field, by its index for Probe.arg.
func (v *variables) addArg(name string, a sdt.Arg, i int) {
	t := ArgType(a)
	s := origin{fromArg, i}
	if t.Kind == expr.String {
		s.kind = fromText
	}
	v.add(name, t, s)
}

// variables returns the variables of a probe: its arguments by their names and indexes, the fields
// of the arguments' targets, and the variables that every probe has. The name of an argument hides
// other variables.
func (p *Probe) variables() *variables {
	v := &variables{}
	for i, a := range p.Args {
		if a.Name != "" {
			v.addArg(a.Name, a.Arg, i)
		}
	}
	for i, a := range p.Args {
		if other := p.otherName(i); other != "" && other != a.Name {
			v.addArg(other, a.Arg, i)
		}
		// In another copy of the line, the variable may be unsure.
		_, isUnsure := value.CutUnsure(a.Name)
		if p.Function != nil && p.Function.Unsure != nil && !isUnsure {
			v.addArg(value.Unsure(a.Name), a.Arg, i)
		}
	}
	v.addProcess()
	p.addFailed(v)
	for i, a := range p.Fields {
		v.addArg(a.Name, a.Arg, len(p.Args)+i)
	}
	p.addConstants(v)
	p.addStarted(v)
	return v
}

// addConstants adds the constants of the types of arguments and fields. If types have different
// constants of one name, it stands for none.
func (p *Probe) addConstants(v *variables) {
	all, types := map[string]*expr.Var{}, map[string]bool{}
	for i := range len(p.Args) + len(p.Fields) {
		a := p.arg(i)
		if len(a.Constants) == 0 || types[a.Type.Name] {
			continue
		}
		types[a.Type.Name] = true
		for bits, name := range a.Constants {
			value := expr.UintValue(bits)
			one := &expr.Var{Name: name, Type: ArgType(a.Arg), Constant: &value}
			if other, taken := all[name]; taken && (other == nil || *other.Constant != value) {
				one = nil
			}
			all[name] = one
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != nil {
			v.vars = append(v.vars, *all[name])
			v.sources = append(v.sources, origin{})
		}
	}
}

// otherName returns the second name of an argument.
func (p *Probe) otherName(i int) string {
	if p.Function != nil {
		return p.Args[i].Alias
	}
	return fmt.Sprintf("arg%d", i)
}

// ArgType returns the type of an argument in expressions.
func ArgType(a sdt.Arg) expr.Type {
	size, t := cmp.Or(a.Size, 8), cmp.Or(a.Type, &sdt.Type{})
	switch {
	case value.IsGoString(t), t.IsString():
		return expr.Type{Kind: expr.String}
	case t.Kind == sdt.KindBool:
		return expr.Type{Kind: expr.Bool, Size: 1}
	case t.Kind == sdt.KindInt:
		return expr.Type{Kind: expr.Int, Size: size, Unit: kind.Int.UnitOf(t.Name, size)}
	case t.Kind == sdt.KindPointer:
		return expr.Type{Kind: expr.Uint, Size: size, Unit: kind.Address}
	case t.Kind == sdt.KindUint:
		return expr.Type{Kind: expr.Uint, Size: size, Unit: kind.Uint.UnitOf(t.Name, size)}
	case (a.Float || t.Kind == sdt.KindFloat) && size >= 4:
		return expr.Type{Kind: expr.Float, Size: size}
	case a.Signed:
		return expr.Type{Kind: expr.Int, Size: size}
	}
	return expr.Type{Kind: expr.Uint, Size: size}
}

// Instruction is the kind of the instruction at a site, by the cost of an event there. The nops of
// notes have the names of package image.
type Instruction string

// The instructions at which functions are probed.
const (
	// Push is the push after the stack check.
	Push Instruction = "push"
	// Branch is the branch of the stack check on arm64.
	Branch Instruction = "branch"
	// Return is the instruction at which a function returns.
	Return Instruction = "return"
	// Entry is the first instruction of a function, and stands for all other instructions.
	Entry Instruction = "entry"
)

// stepped lists the instructions of functions that the kernel single-steps: it executes a copy, and
// gets a debug trap after it. It emulates the others.
var stepped = map[string][]Instruction{
	"amd64": {Return, Entry},
	"arm64": {Entry},
}

// emulated stands for the other instructions that the kernel emulates.
var emulated = map[string]Instruction{"amd64": Push, "arm64": Branch}

// Stepped reports whether the kernel single-steps the instruction. It reports false for nops,
// because that depends on the kernel.
func (i Instruction) Stepped() bool { return slices.Contains(stepped[runtime.GOARCH], i) }

// Instruction returns the kind of the instruction at the sites of a probe.
func (p *Probe) Instruction() Instruction {
	switch {
	case p.Function == nil && p.Nop != "":
		return Instruction(p.Nop)
	case p.Function == nil:
		return Entry
	case p.Function.Return:
		return Return
	case p.Function.Push:
		return Push
	case p.Restarts:
		return Branch
	case p.Function.Emulated:
		return emulated[runtime.GOARCH]
	}
	return Entry
}
