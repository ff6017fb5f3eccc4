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

// reader reads the declarations of a file.
type reader struct {
	file      *token.File
	all       map[*ast.Object]*Declaration
	in        []ast.Node // those that contain the node that is visited
	functions [][2]int
	of        []int    // the indexes of functions among those of in
	clauses   []clause // of type switches with a variable
}

// clause is a clause of a type switch, which has a variable of its own for the compiler.
type clause struct {
	of          *ast.Object
	first, last int // lines
	until       int
}

// visit adds the variables that a node declares.
func (r *reader) visit(n ast.Node) bool {
	if n == nil {
		n, r.in = r.in[len(r.in)-1], r.in[:len(r.in)-1]
		if isFunction(n) {
			r.of = r.of[:len(r.of)-1]
		}
		return true
	}
	if isFunction(n) {
		r.of = append(r.of, len(r.functions))
		r.functions = append(r.functions, [2]int{r.line(n.Pos()), r.line(n.End())})
	}
	r.declare(n)
	r.in = append(r.in, n)
	return true
}

func isFunction(n ast.Node) bool {
	switch n.(type) {
	case *ast.FuncDecl, *ast.FuncLit:
		return true
	}
	return false
}

// until returns the last line of the scope of what the node that is visited declares.
func (r *reader) until(n ast.Node) int {
	for i := len(r.in) - 1; i >= 0; i-- {
		switch in := r.in[i].(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause, *ast.IfStmt, *ast.ForStmt,
			*ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.FuncDecl, *ast.FuncLit:
			return r.line(in.End())
		}
	}
	return r.line(n.End())
}

// line returns a line as the compiler has it, which comments can change.
func (r *reader) line(at token.Pos) int { return r.file.PositionFor(at, true).Line }

// add adds the variable that an identifier declares in a statement, or in a parameter.
func (r *reader) add(e ast.Expr, in ast.Node) *Declaration {
	id, ok := e.(*ast.Ident)
	if !ok || id.Obj == nil || id.Obj.Kind != ast.Var || id.Obj.Pos() != id.Pos() {
		return nil
	}
	d := r.all[id.Obj]
	if d == nil {
		d = &Declaration{
			Line: r.line(id.Pos()), First: r.line(in.Pos()), Last: r.line(in.End()), Until: r.until(in),
			Changed: map[Part]bool{}, Selected: map[Part]bool{},
		}
		if len(r.of) > 0 {
			d.function = r.of[len(r.of)-1]
		}
		r.all[id.Obj] = d
	}
	return d
}

func (r *reader) declare(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		r.parameters(n.Recv, n, false)
	case *ast.FuncType:
		switch r.in[len(r.in)-1].(type) {
		case *ast.FuncDecl, *ast.FuncLit: // others are those of types
			r.parameters(n.Params, n, false)
			r.parameters(n.Results, n, true)
		}
	case *ast.DeclStmt:
		if d, ok := n.Decl.(*ast.GenDecl); ok {
			r.specs(d)
		}
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			if n.Tok == token.DEFINE {
				r.add(e, n)
			}
		}
	case *ast.CaseClause:
		r.clause(n)
	case *ast.RangeStmt:
		for _, e := range []ast.Expr{n.Key, n.Value} {
			if n.Tok != token.DEFINE {
				break
			}
			if d := r.add(e, n.X); d != nil {
				d.Loop, d.Until = true, r.line(n.End())
			}
		}
	}
}

// clause adds a clause of a type switch with a variable.
func (r *reader) clause(n *ast.CaseClause) {
	if len(r.in) < 2 {
		return
	}
	of, ok := r.in[len(r.in)-2].(*ast.TypeSwitchStmt)
	if !ok {
		return
	}
	assign, ok := of.Assign.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 {
		return
	}
	if id, ok := assign.Lhs[0].(*ast.Ident); ok && r.all[id.Obj] != nil {
		r.clauses = append(r.clauses, clause{id.Obj, r.line(n.Pos()), r.line(n.Colon), r.line(n.End())})
	}
}

// parameters adds parameters or results. A return statement assigns to results.
func (r *reader) parameters(fields *ast.FieldList, of ast.Node, results bool) {
	if fields == nil {
		return
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			if d := r.add(name, name); d != nil {
				d.isParameter, d.Assigned = true, d.Assigned || results
				if _, isReceiver := of.(*ast.FuncDecl); isReceiver {
					d.Until = r.line(of.End())
				}
			}
		}
	}
}

func (r *reader) specs(d *ast.GenDecl) {
	for _, s := range d.Specs {
		if v, ok := s.(*ast.ValueSpec); ok {
			for _, name := range v.Names {
				r.add(name, v)
			}
		}
	}
}

// change notes what a node does to variables.
func (r *reader) change(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			r.assign(e)
		}
	case *ast.IncDecStmt:
		r.assign(n.X)
	case *ast.RangeStmt:
		r.assign(n.Key)
		r.assign(n.Value)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			r.assign(n.X)
		}
	case *ast.SliceExpr: // it takes the address of an array
		if d, part := r.variable(n.X); d != nil {
			d.Changed[part+Element] = true
		}
	case *ast.SelectorExpr:
		if d, part := r.variable(n); d != nil {
			d.Selected[part] = true
		}
	}
	return true
}

// assign notes that something is assigned to an expression, or that its address is taken.
func (r *reader) assign(e ast.Expr) {
	if id, ok := e.(*ast.Ident); ok && id.Obj != nil && id.Obj.Pos() == id.Pos() {
		return // it is the declaration
	}
	switch d, part := r.variable(e); {
	case d == nil:
	case part == "":
		d.Assigned = true
	default:
		d.Changed[part] = true
	}
}

// variable returns the variable that an expression is, or is a part of, or nil.
func (r *reader) variable(e ast.Expr) (*Declaration, Part) {
	part := Part("")
	for {
		switch x := e.(type) {
		case *ast.Ident:
			if x.Obj == nil {
				return nil, ""
			}
			return r.all[x.Obj], part
		case *ast.ParenExpr:
			e = x.X
		case *ast.SelectorExpr:
			e, part = x.X, "."+Part(x.Sel.Name)+part
		case *ast.IndexExpr:
			e, part = x.X, Element+part
		default:
			return nil, ""
		}
	}
}
