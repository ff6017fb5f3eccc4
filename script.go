package stapsdt

import (
	"fmt"
	"io"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/bpftrace"
)

// WriteScript writes a bpftrace program that prints each event of the provider on a line,
// with its arguments formatted according to their types:
//
//	myapp:request__done("/index.html", 200)
//
// If the arguments have names, the line has them too:
//
//	myapp:request__done path="/index.html" status=200
//
// bpftrace cannot print floating-point numbers: the program prints their bits, in
// hexadecimal. A comment in the program says how to run it. If a probe has more than six
// arguments, the program prints only the first six, because bpftrace 0.17 reads no more.
//
// The provider need not be loaded, unless its image is kept in memory: the program then
// works only for this process. For a loaded provider, the program has the probes that are
// in the image.
//
// If WriteScript fails, it returns an *Error that wraps w's error or ErrName.
func (p *Provider) WriteScript(w io.Writer) error {
	// Root will run the program, so it must not contain an unchecked name.
	if p.zero() {
		return p.fail("script", "", errZero)
	}
	if err := checkName(p.name); err != nil {
		return p.fail("script", "", err)
	}
	if _, err := io.WriteString(w, p.script()); err != nil {
		return p.fail("script", "", err)
	}
	return nil
}

// script returns the program. It does not write, because it holds the lock.
func (p *Provider) script() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	where := "*"
	if path, inMemory := p.place(); inMemory && path != "" {
		where = path
		fmt.Fprintf(&b, "// Prints the events of %s in this process. Run it as root:\n//\n//\tbpftrace FILE\n", p.name)
	} else {
		fmt.Fprintf(&b, "// Prints the events of %s in a process. Run it as root:\n//\n//\tbpftrace -p PID FILE\n", p.name)
	}
	probes := p.probes
	if p.loaded {
		probes = probes[:p.live] // bpftrace may refuse a program with a probe that it does not find
	}
	for _, probe := range probes {
		if p.byName[probe.name] == probe { // a clause covers all sites of its name
			probe.writeClause(&b, where)
		}
	}
	return b.String()
}

// writeClause writes the clause that prints the events of one probe.
func (p *Probe) writeClause(b *strings.Builder, where string) {
	name, args := bpftrace.Format(p.String())
	names := p.argNames() // identifiers, which need no quotes
	fmt.Fprintf(b, "\nusdt:%s:%s:%s\n{\n", where, bpftrace.Quote(p.provider.name), bpftrace.Quote(p.name))
	if len(p.args) > bpftrace.MaxArgs {
		fmt.Fprintf(b, "\t// of %d arguments\n", len(p.args))
	}
	verbs := make([]string, 0, bpftrace.MaxArgs+1)
	for i, t := range p.args[:min(len(p.args), bpftrace.MaxArgs)] {
		verb, arg := p.format(i)
		if t.float() {
			fmt.Fprintf(b, "\t// arg%d is a %v: these are its bits\n", i, t)
		}
		if names != nil {
			verb = names[i] + "=" + verb
		}
		verbs = append(verbs, verb)
		args += ", " + arg
	}
	if len(p.args) > bpftrace.MaxArgs {
		verbs = append(verbs, "...")
	}
	list := "(" + strings.Join(verbs, ", ") + ")"
	if names != nil {
		list = " " + strings.Join(verbs, " ")
	}
	fmt.Fprintf(b, "\tprintf(\"%s%s\\n\"%s);\n}\n", name, list, args)
}

// format returns how bpftrace prints an argument: the verb, and the expression.
func (p *Probe) format(i int) (verb, arg string) {
	arg = fmt.Sprintf("arg%d", i)
	switch t := p.args[i]; {
	case t == String:
		return `\"%s\"`, "str(" + arg + ")"
	case t.Signed():
		return "%ld", arg
	case t.float(), p.pointers>>i&1 == 1:
		return "0x%lx", arg
	}
	return "%lu", arg
}
