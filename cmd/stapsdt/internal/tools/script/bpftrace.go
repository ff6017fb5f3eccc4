//go:build linux

package script

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Bpftrace returns a program for bpftrace, from version 0.17 on, that prints a line for each
// event: the process, its name, the probe and the arguments. skipped has a message for each
// probe that bpftrace cannot trace and that is therefore not in the program.
func (s *Script) Bpftrace() (program string, skipped []string) {
	var b strings.Builder
	s.head(&b)
	for _, sites := range s.byName() {
		if why := obstacle(sites); why != "" {
			skipped = append(
				skipped,
				fmt.Sprintf(
					"%s in %s: %s",
					render.Printable(sites[0].Provider+":"+sites[0].Name),
					render.Printable(sites[0].File.Path),
					why,
				),
			)
			continue
		}
		s.clause(&b, sites)
	}
	return b.String(), skipped
}

// byName groups the sites by file and name. A clause of bpftrace covers all sites of a group.
func (s *Script) byName() (all [][]Site) {
	for _, site := range s.Sites {
		i := slices.IndexFunc(all, func(sites []Site) bool {
			return sites[0].File == site.File && sites[0].Provider == site.Provider &&
				sites[0].Name == site.Name
		})
		if i < 0 {
			all = append(all, nil)
			i = len(all) - 1
		}
		all[i] = append(all[i], site)
	}
	return all
}

// obstacle returns the reason that bpftrace cannot trace a probe, or "".
func obstacle(sites []Site) string {
	for _, name := range []string{sites[0].Provider, sites[0].Name} {
		if !printable(name) || strings.ContainsAny(name, ` :*?/",{}`) {
			return "bpftrace has no way to write this name"
		}
	}
	if path := sites[0].File.Path; !printable(path) || strings.ContainsAny(path, `:*?"\`) {
		return "bpftrace has no way to write this path"
	}
	for _, site := range sites {
		for _, a := range site.Args {
			// bpftrace 0.17 reads a wrong value, or the values of other arguments, and
			// 0.27 refuses the probe.
			spelled, _, _ := strings.Cut(a.String(), "@")
			if a.Err != nil || a.Operand.Symbol != "" || a.Operand.Kind == sdt.OperandVector ||
				strings.HasSuffix(spelled, "f") {
				return fmt.Sprintf("bpftrace does not understand the operand %s", render.Printable(a.String()))
			}
		}
	}
	return ""
}

func printable(name string) bool {
	return utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

func (s *Script) clause(b *strings.Builder, sites []Site) {
	fmt.Fprintf(b, "\n// %s\n", sites[0].describe())
	fmt.Fprintf(b, "usdt:%s:%s:%s\n", quote(sites[0].File.Path), quote(sites[0].Provider), quote(sites[0].Name))
	if len(s.PIDs) > 0 {
		var tests []string
		for _, pid := range s.PIDs {
			tests = append(tests, fmt.Sprintf("pid == %d", pid))
		}
		fmt.Fprintf(b, "/%s/\n", strings.Join(tests, " || "))
	}
	b.WriteString("{\n")
	values := s.common(sites)
	name, args := formatName(sites[0].Provider + ":" + sites[0].Name)
	list := ""
	args = "pid, comm" + args
	for i, v := range values[:min(len(values), maxArgs)] {
		verb, arg := v.bpftrace(i)
		if v.format == float {
			fmt.Fprintf(b, "\t// %s is a float%d: these are its bits\n", v.name, 8*v.size())
		}
		list += " " + v.name + "=" + verb
		args += ", " + arg
	}
	if n := len(values); n > maxArgs {
		fmt.Fprintf(b, "\t// of %d arguments: bpftrace 0.17 reads no more\n", n)
		list += " ..."
	}
	fmt.Fprintf(b, "\tprintf(\"%%d %%s %s%s\\n\", %s);\n}\n", name, list, args)
}

// common returns the arguments that all sites of a name have. bpftrace extends each value to
// 64 bits according to the signedness in the note of its site, so that one format fits all.
func (s *Script) common(sites []Site) []value {
	values := s.values(&sites[0])
	for i := range sites[1:] {
		others := s.values(&sites[i+1])
		values = values[:min(len(values), len(others))]
		for j := range values {
			if values[j].format == unsigned && others[j].format == signed {
				values[j] = others[j]
			}
		}
	}
	return values
}

// bpftrace returns the verb and the expression with which bpftrace prints the i-th argument.
func (v *value) bpftrace(i int) (verb, arg string) {
	arg = fmt.Sprintf("arg%d", i)
	switch v.format {
	case characters:
		return `\"%s\"`, "str(" + arg + ")"
	case boolean:
		return "%s", arg + ` ? "true" : "false"`
	case address, float:
		return "0x%lx", arg
	case unsigned:
		return "%lu", arg
	}
	if !v.Signed {
		arg = fmt.Sprintf("(int%d)%s", 8*v.size(), arg)
	}
	if v.format == duration {
		return "%ldns", arg
	}
	return "%ld", arg
}

// maxArgs is the number of arguments of an event that every version of bpftrace reads: the number
// of arguments in registers on amd64.
const maxArgs = 6

// quote returns a name or a path in the form that bpftrace accepts in a probe specification: in
// quotes, if it contains anything except letters, digits and the characters "_.-/". The caller
// makes sure that it contains no quote. Names come from other programs, and root runs the script,
// so that a name must not be able to add code to it.
//
// bpftrace reads a quoted string twice, and each time turns two backslashes into one (tested with
// 0.17, which also accepts a backslash without quotes, but not at the end).
func quote(s string) string {
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z',
			'A' <= r && r <= 'Z',
			'0' <= r && r <= '9',
			strings.ContainsRune("_.-/", r):
		default:
			return `"` + strings.ReplaceAll(s, `\`, `\\\\`) + `"`
		}
	}
	return s
}

// formatName returns a name as a part of printf's format, and the arguments that this part needs,
// each after ", ". Not every version of bpftrace accepts %% in a format, so a "%" becomes an
// argument. The caller makes sure that the name contains no quote.
func formatName(name string) (format, args string) {
	format = strings.NewReplacer(`\`, `\\`, "%", "%s").Replace(name)
	return format, strings.Repeat(`, "%"`, strings.Count(name, "%"))
}
