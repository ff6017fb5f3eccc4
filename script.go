package stapsdt

import (
	"fmt"
	"io"
	"strings"
)

// scriptArgs is how many arguments every bpftrace reads: those that are in
// registers on amd64.
const scriptArgs = 6

// WriteScript writes a bpftrace program that prints every event of the provider,
// a line each, with the arguments formatted by their types:
//
//	myapp:request__done("/index.html", 200)
//
// The program that it writes says how to run it. Of a probe with more than six
// arguments it prints the first six, as bpftrace 0.17 reads no more of them. The
// provider need not be loaded, unless its image is kept in memory: then the
// script is for this process only. The error
// is w's, or ErrName.
func (p *Provider) WriteScript(w io.Writer) error {
	// What root will run holds no name that was not looked at.
	if err := p.checkName(p.name, ""); err != nil {
		return err
	}
	_, err := io.WriteString(w, p.script())
	return err
}

// script returns the program. Nothing is written while the lock is held.
func (p *Provider) script() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	where := "*"
	if strings.HasPrefix(p.path, "/proc/") {
		where = p.path
		fmt.Fprintf(&b, "// Prints what %s fires. Run it, as root, with\n//\n//\tbpftrace FILE\n", p.name)
	} else {
		fmt.Fprintf(&b, "// Prints what %s fires in a process. Run it, as root, with\n//\n//\tbpftrace -p PID FILE\n", p.name)
	}
	for _, probe := range p.probes {
		if p.byName[probe.name] == probe { // a second trace point has its name
			probe.writeClause(&b, where)
		}
	}
	return b.String()
}

// quoted returns a name as bpftrace takes it in a probe's place: in quotes, when it has
// more than letters, digits and what bpftrace knows otherwise. A backslash it knows
// (0.17 does not find one in quotes).
func quoted(name string) string {
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(`_.-\`, r):
		default:
			return `"` + strings.ReplaceAll(name, `\`, `\\`) + `"`
		}
	}
	return name
}

// writeClause writes what prints one probe.
func (p *Probe) writeClause(b *strings.Builder, where string) {
	// Not every bpftrace knows %% in a format.
	name := strings.NewReplacer(`\`, `\\`, "%", "%s").Replace(p.String())
	args := strings.Repeat(`, "%"`, strings.Count(name, "%"))
	verbs := make([]string, 0, scriptArgs)
	for i, t := range p.args[:min(len(p.args), scriptArgs)] {
		verb, arg := "%lu", fmt.Sprintf("arg%d", i)
		switch {
		case t == String:
			verb, arg = `\"%s\"`, "str("+arg+")"
		case t.Signed():
			verb = "%ld"
		case p.pointers>>i&1 == 1:
			verb = "0x%lx"
		}
		verbs = append(verbs, verb)
		args += ", " + arg
	}
	fmt.Fprintf(b, "\nusdt:%s:%s:%s\n{\n", where, quoted(p.provider.name), quoted(p.name))
	if len(p.args) > scriptArgs {
		verbs = append(verbs, "...")
		fmt.Fprintf(b, "\t// of %d arguments\n", len(p.args))
	}
	fmt.Fprintf(b, "\tprintf(\"%s(%s)\\n\"%s);\n}\n", name, strings.Join(verbs, ", "), args)
}
