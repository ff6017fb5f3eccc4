package gosource

import (
	"go/ast"
	"go/token"
)

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
			Line: r.line(id.Pos()), First: r.line(in.Pos()), Last: r.line(in.End()),
			Until:   r.until(in),
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
		c := clause{id.Obj, r.line(n.Pos()), r.line(n.Colon), r.line(n.End())}
		r.clauses = append(r.clauses, c)
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
