package dlang

import (
	"fmt"
	goscanner "go/scanner"
	gotoken "go/token"
	"slices"
	"strings"
)

// Provider is a provider and its probes.
type Provider struct {
	Name   string
	Pos    Pos
	Probes []*Probe
}

// Probe is a probe and the arguments that its program passes.
type Probe struct {
	Name string
	Pos  Pos
	Args []Arg
}

// Arg is an argument of a probe.
type Arg struct {
	// Name is "" if the file gives no name.
	Name string
	Pos  Pos
	// C is the declaration in C, and Type the type in Go.
	C, Type string
}

// parser reads declarations. After a syntax error it is at the end of the file.
type parser struct {
	tokens    []token
	at        int
	types     map[string]ctype // the types that the file defines
	providers []*Provider
	errors    Errors
	failed    bool // whether there was a syntax error
}

// Parse returns the providers of a file. An error is of the type [Errors].
func Parse(file, text string) ([]*Provider, error) {
	p := &parser{types: map[string]ctype{}}
	p.tokens = scan(file, text, &p.errors)
	if err := p.errors.Err(); err != nil {
		return nil, err
	}
	for p.peek().kind != end {
		p.declaration()
	}
	if len(p.errors) == 0 && len(p.providers) == 0 {
		add(&p.errors, Pos{Filename: file, Line: 1, Column: 1}, "no provider is defined here")
	}
	return p.providers, p.errors.Err()
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != end {
		p.at++
	}
	return t
}

// accept skips the next token if it has this text, and reports whether it has.
func (p *parser) accept(text string) bool {
	t := p.peek()
	if t.kind == quote || t.kind == end || t.text != text {
		return false
	}
	p.at++
	return true
}

// fail reports a syntax error, and ends the parsing.
func (p *parser) fail(t token, format string, args ...any) {
	if !p.failed {
		add(&p.errors, t.pos, format, args...)
	}
	p.failed, p.at = true, len(p.tokens)-1
}

// expect skips the next token, which must have this text.
func (p *parser) expect(text, where string) {
	if !p.accept(text) {
		t := p.peek()
		p.fail(t, "%s %s is missing before %s", text, where, t.text)
	}
}

// name returns the next token, which must be a name.
func (p *parser) name(of string) token {
	t := p.peek()
	if t.kind != word || t.text[0] >= '0' && t.text[0] <= '9' {
		p.fail(t, "%s is not a valid name of %s", t.text, of)
		return t
	}
	return p.next()
}

// balanced skips the rest of a group in brackets. The opening bracket was skipped.
func (p *parser) balanced(of token) {
	for depth := 1; depth > 0; {
		t := p.next()
		switch {
		case t.kind == end:
			p.fail(of, "%s has no end", of.text)
			return
		case t.kind == mark && strings.Contains("([{", t.text):
			depth++
		case t.kind == mark && strings.Contains(")]}", t.text):
			depth--
		}
	}
}

func (p *parser) declaration() {
	switch t := p.peek(); {
	case p.accept(";"):
	case p.accept("provider"):
		p.provider()
	case p.accept("translator") || p.accept("inline"):
		p.skip(t)
	case t.kind == word:
		p.declared()
	default:
		p.fail(t, "%s does not begin a definition of a provider or a type", t.text)
	}
}

// skip skips a declaration up to its semicolon.
func (p *parser) skip(of token) {
	for !p.accept(";") {
		t := p.next()
		switch {
		case t.kind == end:
			p.fail(of, "%s has no end", of.text)
			return
		case t.kind == mark && strings.Contains("([{", t.text):
			p.balanced(t)
		}
	}
}

// declared reads a typedef, or the definition of a struct, a union or an enum. Any other
// declaration is not part of a provider.
func (p *parser) declared() {
	first := p.peek()
	isTypedef := p.accept("typedef")
	base := p.specifiers()
	if !isTypedef && !slices.Contains([]string{"struct", "union", "enum"}, first.text) {
		p.fail(first, "%s does not begin a definition of a provider or a type", first.text)
		return
	}
	for !p.accept(";") {
		t := p.peek()
		name, typ := p.declarator(base)
		if isTypedef && name.kind == word {
			p.types[name.text] = typ
		}
		if !p.accept(",") && p.peek().text != ";" {
			p.fail(t, "; is missing after the declaration")
			return
		}
	}
}

func (p *parser) provider() {
	name := p.name("a provider")
	provider := &Provider{Name: name.text, Pos: name.pos}
	for _, other := range p.providers {
		if other.Name == provider.Name {
			add(&p.errors, name.pos, "provider %s is defined twice, first at %v", name.text, other.Pos)
		}
	}
	p.providers = append(p.providers, provider)
	p.expect("{", "of provider "+name.text)
	for p.peek().kind != end && !p.accept("}") {
		if t := p.peek(); !p.accept("probe") {
			p.fail(t, "%s is neither a probe of provider %s nor its closing brace", t.text, name.text)
			return
		}
		p.probe(provider)
	}
	p.expect(";", "after provider "+name.text)
}

// probe reads a probe, after the word probe. Its first list has the arguments that the program
// passes, and its second list the translated arguments that DTrace scripts see.
func (p *parser) probe(provider *Provider) {
	name := p.name("a probe")
	probe := &Probe{Name: name.text, Pos: name.pos}
	for _, other := range provider.Probes {
		if other.Name == probe.Name {
			add(&p.errors, name.pos, "probe %s is defined twice, first at %v", name.text, other.Pos)
		}
	}
	provider.Probes = append(provider.Probes, probe)
	probe.Args = p.args(name, true)
	if p.accept(":") {
		for _, translated := range p.args(name, false) {
			same := func(a Arg) bool { return a.Name == translated.Name }
			if !slices.ContainsFunc(probe.Args, same) {
				add(&p.errors, translated.Pos, "probe %s passes no argument %q that could be translated", name.text, translated.Name)
			}
		}
	}
	p.expect(";", "after probe "+name.text)
}

// args reads a list of arguments in parentheses. Their types matter only if they are
// passed.
func (p *parser) args(probe token, passed bool) (args []Arg) {
	p.expect("(", "of the arguments of probe "+probe.text)
	if p.accept(")") {
		return nil
	}
	for p.peek().kind != end {
		if t := p.peek(); p.accept("...") {
			add(&p.errors, t.pos, "probe %s takes any number of arguments: a probe in Go has a fixed number", probe.text)
		} else if arg, none := p.arg(probe, passed); !none {
			args = append(args, arg)
		} else if len(args) > 0 || p.peek().text != ")" {
			add(&p.errors, t.pos, "void is not a type of an argument")
		}
		if p.accept(")") {
			return args
		}
		p.expect(",", "between the arguments of probe "+probe.text)
	}
	return args
}

// arg reads an argument. none reports whether it is void, which means no arguments.
func (p *parser) arg(probe token, passed bool) (arg Arg, none bool) {
	first, at := p.peek(), p.at
	base := p.specifiers()
	name, typ := p.declarator(base)
	if typ.void && name.kind != word {
		return arg, true
	}
	arg = Arg{Pos: first.pos, Type: typ.goType, C: spell(p.tokens[at:p.at])}
	if name.kind == word {
		arg.Name, arg.Pos = name.text, name.pos
	}
	if passed && typ.goType == "" && typ.why != "" {
		add(&p.errors, first.pos, "probe %s: %s", probe.text, typ.why)
	}
	return arg, false
}

// spell returns a declaration in the usual spelling.
func spell(tokens []token) string {
	var b strings.Builder
	for i, t := range tokens {
		if t.kind == quote {
			continue // the size of an array, which can contain any bytes
		}
		if i > 0 && tokens[i-1].kind == word && (t.kind == word || t.text == "*") {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

// specifiers reads the type before a declarator. An unknown type is an error only where its
// size matters.
func (p *parser) specifiers() (t ctype) {
	var words []string
	known := false
	for first := p.peek(); ; {
		next := p.peek()
		switch {
		case slices.Contains(qualifiers, next.text):
			p.next()
		case !known && slices.Contains(basicWords, next.text):
			words = append(words, p.next().text)
		case known || len(words) > 0 || next.kind != word || next.text[0] <= '9':
			if len(words) > 0 {
				var ok bool
				if t, ok = basicType(words); !ok {
					p.fail(first, "%s is not a type", strings.Join(words, " "))
				}
			} else if !known {
				p.fail(next, "a type is missing before %s", next.text)
			}
			return t
		default:
			t, known = p.typeName(), true
		}
	}
}

// typeName reads a type that is not made of basic words.
func (p *parser) typeName() ctype {
	t := p.next()
	switch t.text {
	case "struct", "union", "enum":
		if p.peek().kind == word {
			p.next()
		}
		if open := p.peek(); p.accept("{") {
			p.balanced(open)
		}
		if t.text == "enum" {
			return basic["int"]
		}
		return ctype{why: "a " + t.text + " cannot be an argument by value: use a pointer"}
	}
	if typ, ok := p.types[t.text]; ok {
		return typ
	}
	if typ, ok := named()[t.text]; ok {
		return typ
	}
	return ctype{why: "the type " + t.text + " is not known: define it in the file by typedef or #define, or use a pointer to it"}
}

// declarator reads a declarator, and returns its name, if any, and the type that it derives from t.
func (p *parser) declarator(t ctype) (name token, _ ctype) {
	for {
		if p.accept("*") {
			t = pointerTo(t)
		} else if slices.Contains(qualifiers, p.peek().text) {
			p.next()
		} else {
			break
		}
	}
	if open := p.peek(); p.accept("(") {
		// A pointer to a function or an array: (*name)(int).
		name, _ = p.declarator(t)
		if !p.accept(")") {
			p.balanced(open)
		}
		t = pointer
	} else if p.peek().kind == word {
		name = p.name("an argument")
	}
	for {
		open := p.peek()
		switch {
		case p.accept("["):
			t = pointerTo(t)
		case p.accept("("):
			t = pointer
		default:
			return name, t
		}
		p.balanced(open)
	}
}

// Pos is a position in a file. Lines and columns begin at 1, and columns count bytes.
type Pos = gotoken.Position

// Errors are the errors of a file, in the order in which they were found.
type Errors = goscanner.ErrorList

func add(e *Errors, pos Pos, format string, args ...any) {
	e.Add(pos, fmt.Sprintf(format, args...))
}
