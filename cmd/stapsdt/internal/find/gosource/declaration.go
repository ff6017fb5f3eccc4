package gosource

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
)

// Declaration is the declaration of a variable.
type Declaration struct {
	// Line is the line of the name. First and Last are those of the statement, or of the parameter.
	Line, First, Last int
	// Until is the last line of the scope. It begins behind the statement, or at the parameter.
	Until       int
	isParameter bool
	function    int // the index of the function that declares it
	// Assigned means that something else is assigned to it, or can be, because its address is
	// taken. Loop means that a loop declares it.
	Assigned, Loop bool
	// Changed are the parts of it to which that applies, and Selected all that follow it with a
	// dot: fields, and methods, whose receiver can be a pointer.
	Changed, Selected map[Part]bool
}

// Part is a part of a variable: the names of fields, each after a dot, and Element for elements.
type Part string

// Element stands for an index.
const Element = ".[]"

// merge adds another variable of the same name on the same line.
func (d *Declaration) merge(o *Declaration) {
	d.First, d.Last, d.Until = min(d.First, o.First), max(d.Last, o.Last), max(d.Until, o.Until)
	d.Assigned, d.Loop = d.Assigned || o.Assigned, d.Loop || o.Loop
	maps.Copy(d.Changed, o.Changed)
	maps.Copy(d.Selected, o.Selected)
}

// named is a variable by its name, and the line of the name.
type named struct {
	name string
	line int
}

// File has the variables that the functions of a source file declare.
type File struct {
	lines     int
	variables map[named]*Declaration
	names     map[string][]*Declaration // by their names only
	functions [][2]int                  // their first and last lines, those of literals too
}

// Parse reads a source file.
func Parse(src []byte) (*File, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, "", src, 0)
	if err != nil {
		return nil, err
	}
	r := reader{file: files.File(tree.FileStart), all: map[*ast.Object]*Declaration{}}
	ast.Inspect(tree, r.visit)
	ast.Inspect(tree, r.change)
	f := &File{
		lines: r.file.LineCount(), variables: map[named]*Declaration{},
		names: map[string][]*Declaration{}, functions: r.functions,
	}
	for object, d := range r.all {
		f.add(object.Name, d)
	}
	for _, c := range r.clauses {
		d := *r.all[c.of]
		d.Line, d.First, d.Last, d.Until = c.first, c.first, c.last, c.until
		f.add(c.of.Name, &d)
	}
	return f, nil
}

func (f *File) add(name string, d *Declaration) {
	key := named{name, d.Line}
	if other := f.variables[key]; other != nil {
		other.merge(d)
		return
	}
	f.variables[key] = d
	f.names[name] = append(f.names[name], d)
}

// Lines returns the number of lines.
func (f *File) Lines() int { return f.lines }

// Find returns the declaration of the variable with a name on a line, or nil. If there are several,
// it returns what is true of any.
func (f *File) Find(name string, line int) *Declaration { return f.variables[named{name, line}] }

// Parameter returns the declaration of the parameter with a name of the innermost function at a
// line that has one, or nil.
func (f *File) Parameter(name string, line int) (d *Declaration) {
	for _, one := range f.names[name] {
		isInside := one.isParameter && one.First <= line && line <= one.Until
		if isInside && (d == nil || one.First > d.First) {
			d = one
		}
	}
	return d
}

// Visible returns the declaration of the variable that a name stands for at the beginning of a
// line, or nil if there is none in the file's functions.
func (f *File) Visible(name string, line int) (d *Declaration) {
	for _, one := range f.names[name] {
		begun := one.Last < line || one.isParameter && one.First <= line
		if begun && line <= one.Until && (d == nil || one.First > d.First) {
			d = one
		}
	}
	return d
}

// Contains reports whether the outermost function at a line contains another line.
func (f *File) Contains(line, other int) bool {
	for _, lines := range f.functions {
		if lines[0] <= line && line <= lines[1] {
			return lines[0] <= other && other <= lines[1]
		}
	}
	return false
}

// Names returns the names of the variables of the innermost function at a line that the line can
// use, in the order of their declarations.
func (f *File) Names(line int) (names []string) {
	innermost := -1
	for i, lines := range f.functions {
		if lines[0] <= line && line <= lines[1] {
			innermost = i
		}
	}
	for name := range f.names {
		if d := f.Visible(name, line); d != nil && d.function == innermost && name != "_" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		first := func(name string) int { return f.Visible(name, line).First }
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a, b))
	})
	return names
}
