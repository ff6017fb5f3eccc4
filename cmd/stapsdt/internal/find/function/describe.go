package function

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Describe sets the arguments and results of functions.
func (p *Program) Describe(fns []*Function) {
	fns = slices.DeleteFunc(slices.Clone(fns), func(fn *Function) bool {
		was := fn.described
		fn.described = true
		return was
	})
	if p.release == 0 {
		for _, fn := range fns {
			fn.ArgsErr = fmt.Errorf("arguments are read of programs that were built by Go 1.%d to 1.%d, and not by %q", firstRelease, lastRelease, p.version)
		}
		return
	}
	if p.debug == nil {
		p.debug = newDebugging(p.file)
	}
	var described []*Function
	for _, fn := range fns {
		if fn.ArgsErr = p.indescribable(fn); fn.ArgsErr == nil {
			described = append(described, fn)
		}
	}
	p.debug.signatures(described, func(fn *Function, s *signature, err error) {
		if fn.ArgsErr = err; err == nil {
			fn.ArgsErr = p.arguments(fn, s)
		}
	})
}

// indescribable returns the reason why the arguments of a function are not where the ABI puts them, or nil.
func (p *Program) indescribable(fn *Function) error {
	switch {
	case fn.Assembly:
		return errors.New("it is written in assembly")
	case fn.info.Wrapper:
		return errors.New("the compiler made it to call another function")
	case strings.Contains(fn.Name, "_Cfunc_") || strings.Contains(fn.Name, "_cgo"):
		return errors.New("cgo made it, and it takes its arguments in another way")
	}
	return nil
}

var errSize = errors.New("its DWARF does not describe all that it takes")

// arguments assigns places to the parameters and results of a function.
func (p *Program) arguments(fn *Function, s *signature) error {
	a := abis[p.file.Machine]
	var params, results []*goType
	for _, q := range s.params {
		params = append(params, q.typ)
	}
	if len(s.results) == 0 && rangeBody.MatchString(fn.Name) { // DWARF does not list it
		s.results = []param{{typ: boolType}}
	}
	for _, q := range s.results {
		results = append(results, q.typ)
	}
	// Without optimization, and since Go 1.27, DWARF lists the dictionary itself.
	at := slices.IndexFunc(s.params, func(q param) bool { return q.name == dictName })
	if at >= 0 {
		s.params = slices.Delete(s.params, at, at+1)
	} else if hasDictionary(fn.Name) {
		if at = 0; isMethod(fn.Name) {
			at = 1
		}
		if at > len(params) {
			return errSize
		}
		params = slices.Insert(params, at, dictionary)
	}
	places := a.places(params, results)
	if places.size != int64(fn.info.Args) {
		return errSize
	}
	for i, at := range slices.Concat(places.params, places.results) {
		// The alignment of a type without fields is unknown.
		if err := slices.Concat(params, results)[i].err; err != nil && at.offset%wordSize != 0 {
			return err
		}
	}
	if at >= 0 {
		places.params = slices.Delete(places.params, at, at+1)
	}
	in, out := &reader{abi: a}, &reader{abi: a}
	for i := range s.params {
		in.parameter("arg", i, &s.params[i], places.params[i])
	}
	for i := range s.results {
		out.parameter("ret", i, &s.results[i], places.results[i])
	}
	fn.Args, fn.Results, fn.Signature = in.args, out.args, s.String()
	fn.Fields, fn.ResultFields = in.fields, out.fields
	return nil
}

// parameter adds the arguments of a parameter or result.
func (r *reader) parameter(kind string, i int, q *param, at place) {
	r.place = at
	first, name := len(r.args), q.shown(kind, i)
	r.read(name, q.typ, 0)
	alias := fmt.Sprintf("%s%d", kind, i)
	if len(r.args) == first+1 && r.args[first].Name == name && name != alias {
		r.args[first].Alias = alias
	}
}

// shown returns the name of a parameter, or a name made from its index if it has none.
func (q *param) shown(kind string, i int) string {
	if q.name == "_" || q.name == "" || q.name[0] == '~' {
		return fmt.Sprintf("%s%d", kind, i)
	}
	return q.name
}

// String returns the signature in Go syntax.
func (s *signature) String() string {
	list := func(kind string, all []param) string {
		var parts []string
		for i := range all {
			parts = append(parts, all[i].shown(kind, i)+" "+all[i].typ.name)
		}
		return "(" + strings.Join(parts, ", ") + ")"
	}
	text := list("arg", s.params)
	if len(s.results) > 0 {
		text += " " + list("ret", s.results)
	}
	return text
}

// closure matches the end of the name of a function literal, or of a function that the compiler makes for go and defer.
var closure = regexp.MustCompile(`[.-](func|gowrap|deferwrap|range)?\d+$`)

// rangeBody matches the end of the name of the function that the compiler makes of the body of a
// loop over a function. It returns whether the loop goes on.
var rangeBody = regexp.MustCompile(`-range\d+$`)

var boolType = &goType{name: "bool", kind: reflect.Bool, size: 1, align: 1}

// dictName is the name of the parameter with the dictionary.
const dictName = ".dict"

// hasDictionary reports whether a function takes a dictionary of types, because it is an instance
// for type arguments of one shape. A function literal in an instance uses the dictionary of the
// instance. A function that compares values of a type needs none.
func hasDictionary(name string) bool {
	return strings.Contains(name, "[go.shape.") && !closure.MatchString(name) && !strings.HasPrefix(name, "type:")
}

// isMethod reports whether an instance is a method, by its name.
func isMethod(name string) bool { return !strings.HasSuffix(name, "]") }
