//go:build linux

package bpf

import (
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Arg is an argument of a probe.
type Arg struct {
	sdt.Arg
	// Delta is the distance from the site to the symbol of the operand, if it has one.
	Delta int64
}

// ArgName returns the name of the i-th argument, which is argI if it has none of its own.
func (p *Probe) ArgName(i int) string {
	if name := p.Args[i].Name; name != "" {
		return name
	}
	return fmt.Sprintf("arg%d", i)
}

// Probe is what one program serves: all sites of a probe with the same operands and types.
type Probe struct {
	Provider, Name string
	Args           []Arg
}

// Key is equal for probes that are the same but for their sites: a program that was generated
// for one of them reads the arguments of the others correctly. The types are compared by their
// layouts, because two versions of a program give one name to different structs.
func (p *Probe) Key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q", p.Provider, p.Name)
	for _, a := range p.Args {
		fmt.Fprintf(&b, " %q %d %q", a.Operand.Text, a.Delta, a.Name)
		fmt.Fprintf(&b, " %d %t %t ", a.Size, a.Signed, a.Float)
		writeLayout(&b, a.Type, true)
	}
	return b.String()
}

// writeLayout writes all of a type that a program reads or that its output is shown by. It
// follows the pointer of an argument; of a pointer in what that points to, a program reads
// a string at most.
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

// kind is the kind of a source.
type kind uint8

const (
	fromArg  kind = iota // the value of an argument
	fromText             // the text that an argument points to
	fromPID
	fromTID
	fromCPU
	fromUID
	fromCgroup
	fromComm
	fromExecutable
)

// source is where the value of a variable comes from.
type source struct {
	kind kind
	arg  int
}

// variables are the variables that the expressions of a probe may use.
type variables struct {
	vars    []expr.Var
	sources []source
}

func (v *variables) add(name string, t expr.Type, s source) {
	v.vars = append(v.vars, expr.Var{Name: name, Type: t})
	v.sources = append(v.sources, s)
}

// variables returns the variables of a probe: its arguments by their names and by their
// numbers, and those that every probe has. The name of an argument hides others.
func (p *Probe) variables() *variables {
	v := &variables{}
	for _, named := range []bool{true, false} {
		for i, a := range p.Args {
			name := a.Name
			if !named {
				name = fmt.Sprintf("arg%d", i)
			}
			if name == "" || !named && name == a.Name {
				continue
			}
			t := ArgType(a.Arg)
			s := source{fromArg, i}
			if t.Kind == expr.String {
				s.kind = fromText
			}
			v.add(name, t, s)
		}
	}
	v.addProcess()
	return v
}

// ArgType returns the type of an argument in expressions.
func ArgType(a sdt.Arg) expr.Type {
	size := a.Size
	if size == 0 {
		size = 8
	}
	if t := a.Type; t != nil {
		switch t.Kind {
		case sdt.KindBool:
			return expr.Type{Kind: expr.Bool, Size: 1}
		case sdt.KindInt:
			return expr.Type{Kind: expr.Int, Size: size, Duration: size == 8 && t.Name == "time.Duration"}
		case sdt.KindUint:
			return expr.Type{Kind: expr.Uint, Size: size}
		case sdt.KindFloat:
			if size >= 4 {
				return expr.Type{Kind: expr.Float, Size: size}
			}
		case sdt.KindPointer:
			if t.IsString() {
				return expr.Type{Kind: expr.String}
			}
			return expr.Type{Kind: expr.Uint, Size: size}
		}
	}
	switch {
	case a.Float && size >= 4:
		return expr.Type{Kind: expr.Float, Size: size}
	case a.Signed:
		return expr.Type{Kind: expr.Int, Size: size}
	}
	return expr.Type{Kind: expr.Uint, Size: size}
}
