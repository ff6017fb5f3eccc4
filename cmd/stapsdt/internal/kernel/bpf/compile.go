//go:build linux

package bpf

import (
	"fmt"
	"math"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
)

// compiler compiles an expression whose variables were already fetched. It uses R0 to R5.
type compiler struct {
	*builder
	e *Expr
}

// refuse fails because the kernel cannot evaluate a part of the expression.
func (c *compiler) refuse(n *expr.Node, format string, args ...any) {
	c.fail(&expr.Error{Src: c.e.String(), Pos: n.Pos, Msg: "this cannot be evaluated in the kernel: " + fmt.Sprintf(format, args...)})
}

// save keeps R0 on the stack while f runs, and loads it into R1 afterwards.
func (c *compiler) save(f func()) {
	if len(c.temps) == 0 {
		c.temps = append(c.temps, c.alloc(8))
	}
	at := c.temps[len(c.temps)-1]
	c.temps = c.temps[:len(c.temps)-1]
	c.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
	f()
	c.add(asm.LoadMem(asm.R1, asm.RFP, at, asm.DWord))
	c.temps = append(c.temps, at)
}

// both leaves X in R1 and Y in R0.
func (c *compiler) both(n *expr.Node) {
	c.value(n.X)
	if n.Y.Op == expr.Const || n.Y.Op == expr.Load {
		c.add(asm.Mov.Reg(asm.R1, asm.R0))
		c.value(n.Y)
		return
	}
	c.save(func() { c.value(n.Y) })
}

// value leaves a number or a bool in R0.
func (c *compiler) value(n *expr.Node) {
	switch {
	case n.Type.Kind == expr.String:
		c.refuse(n, "a text is compared with constants only")
	case n.Op == expr.Const:
		c.constant(asm.R0, c.bits(n))
	case n.Op == expr.Load:
		c.add(asm.LoadMem(asm.R0, asm.RFP, c.nums[c.e.vars.sources[n.Var]], asm.DWord))
		if n.Type.Kind == expr.Bool {
			one := c.fresh("bool")
			c.add(asm.JEq.Imm(asm.R0, 0, one), asm.Mov.Imm(asm.R0, 1))
			c.label(one)
		}
	case n.Type.Kind == expr.Bool:
		c.boolean(n)
	case n.Type.Kind == expr.Float:
		c.refuse(n, "arithmetic on floats is not supported")
	case n.Op == expr.Len:
		c.length(n)
	default:
		c.arithmetic(n)
		c.extend(n.Type.Size, n.Type.Kind == expr.Int)
	}
}

// bits returns the register contents of a constant. A float has the bits of its type.
func (c *compiler) bits(n *expr.Node) int64 {
	switch {
	case n.Type.Kind == expr.Bool && n.Value.Bool():
		return 1
	case n.Type.Kind == expr.Bool:
		return 0
	case n.Type.Kind == expr.Float && n.Type.Size == 4:
		return int64(math.Float32bits(float32(n.Value.Float())))
	case n.Type.Kind == expr.Float:
		return int64(math.Float64bits(n.Value.Float()))
	}
	return n.Value.Int()
}

// boolean leaves the value of a condition in R0.
func (c *compiler) boolean(n *expr.Node) {
	yes, no, done := c.fresh("true"), c.fresh("false"), c.fresh("done")
	c.cond(n, yes, no)
	c.label(yes)
	c.add(asm.Mov.Imm(asm.R0, 1))
	c.jump(done)
	c.label(no)
	c.add(asm.Mov.Imm(asm.R0, 0))
	c.label(done)
}

// cond jumps to yes or to no.
func (c *compiler) cond(n *expr.Node, yes, no string) {
	switch n.Op {
	case expr.And, expr.Or:
		next := c.fresh("next")
		if n.Op == expr.And {
			c.cond(n.X, next, no)
		} else {
			c.cond(n.X, yes, next)
		}
		c.label(next)
		c.cond(n.Y, yes, no)
	case expr.Not:
		c.cond(n.X, no, yes)
	case expr.Equal, expr.NotEqual, expr.Less, expr.LessEqual, expr.Greater, expr.GreaterEqual:
		c.compare(n, yes, no)
	case expr.HasPrefix, expr.HasSuffix, expr.Contains:
		c.search(n, yes, no)
	default:
		c.value(n)
		c.add(asm.JNE.Imm(asm.R0, 0, yes))
		c.jump(no)
	}
}

var unsigned = map[expr.Op]asm.JumpOp{
	expr.Equal: asm.JEq, expr.NotEqual: asm.JNE, expr.Less: asm.JLT, expr.LessEqual: asm.JLE,
	expr.Greater: asm.JGT, expr.GreaterEqual: asm.JGE,
}

var signed = map[expr.Op]asm.JumpOp{
	expr.Equal: asm.JEq, expr.NotEqual: asm.JNE, expr.Less: asm.JSLT, expr.LessEqual: asm.JSLE,
	expr.Greater: asm.JSGT, expr.GreaterEqual: asm.JSGE,
}

func (c *compiler) compare(n *expr.Node, yes, no string) {
	switch x, y := n.X.Type.Kind, n.Y.Type.Kind; {
	case x == expr.String:
		c.compareTexts(n, yes, no)
	case x == expr.Float || y == expr.Float:
		c.compareFloats(n, yes, no)
	default:
		c.compareIntegers(n, yes, no)
	}
}

func (c *compiler) compareIntegers(n *expr.Node, yes, no string) {
	c.both(n)
	x, y := n.X.Type.Kind, n.Y.Type.Kind
	op := unsigned[n.Op]
	switch {
	case x == expr.Int && y == expr.Int:
		op = signed[n.Op]
	case x == expr.Int || y == expr.Int:
		// A negative number is less than every unsigned number.
		negative, isLess := asm.R1, n.Op == expr.Less || n.Op == expr.LessEqual
		if y == expr.Int {
			negative, isLess = asm.R0, n.Op == expr.Greater || n.Op == expr.GreaterEqual
		}
		if isLess || n.Op == expr.NotEqual {
			c.add(asm.JSLT.Imm(negative, 0, yes))
		} else {
			c.add(asm.JSLT.Imm(negative, 0, no))
		}
	}
	c.add(op.Reg(asm.R1, asm.R0, yes))
	c.jump(no)
}

// compareFloats compares floats of one size by their bits: as signed integers, they have the same
// order if the order of negative numbers is reversed.
func (c *compiler) compareFloats(n *expr.Node, yes, no string) {
	for _, part := range []*expr.Node{n.X, n.Y} {
		if part.Op != expr.Load && part.Op != expr.Const || part.Type != n.X.Type {
			c.refuse(part, "a float is compared with constants and floats of its size only")
			return
		}
	}
	c.both(n)
	unordered := no
	if n.Op == expr.NotEqual {
		unordered = yes
	}
	for _, r := range []asm.Register{asm.R0, asm.R1} {
		c.order(r, n.X.Type.Size, unordered)
	}
	c.add(signed[n.Op].Reg(asm.R1, asm.R0, yes))
	c.jump(no)
}

// order converts the float in a register to an integer with the same order. It uses R2 and R3.
func (c *compiler) order(r asm.Register, size int, unordered string) {
	infinity := int64(0x7ff0_0000_0000_0000)
	if size == 4 {
		// A float in the upper half keeps its order, and the lower half is 0.
		c.add(asm.LSh.Imm(r, 32))
		infinity = 0x7f80_0000 << 32
	}
	positive := c.fresh("positive")
	c.constant(asm.R3, infinity)
	c.add(
		asm.Mov.Reg(asm.R2, r),
		asm.LSh.Imm(asm.R2, 1),
		asm.RSh.Imm(asm.R2, 1), // clears the sign
		asm.JGT.Reg(asm.R2, asm.R3, unordered),
		asm.JSGE.Imm(r, 0, positive),
		asm.Mov.Reg(r, asm.R2),
		asm.Neg.Imm(r, 0), // -0 becomes 0
	)
	c.label(positive)
}

var commutative = map[expr.Op]asm.ALUOp{
	expr.Add:    asm.Add,
	expr.Mul:    asm.Mul,
	expr.BitAnd: asm.And,
	expr.BitOr:  asm.Or,
	expr.BitXor: asm.Xor,
}

// arithmetic leaves the result of an operation on integers in R0, without its size.
func (c *compiler) arithmetic(n *expr.Node) {
	if n.Y == nil {
		c.value(n.X)
	} else {
		c.both(n)
	}
	switch n.Op {
	case expr.Moment:
		for _, end := range []int64{math.MinInt64, math.MaxInt64} {
			c.constant(asm.R1, end)
			c.add(asm.JEq.Reg(asm.R0, asm.R1, c.fault))
		}
	case expr.Neg:
		c.add(asm.Neg.Imm(asm.R0, 0))
	case expr.Complement:
		c.add(asm.Xor.Imm(asm.R0, -1))
	case expr.Add, expr.Mul, expr.BitAnd, expr.BitOr, expr.BitXor:
		c.add(commutative[n.Op].Reg(asm.R0, asm.R1))
	case expr.BitAndNot:
		c.add(asm.Xor.Imm(asm.R0, -1), asm.And.Reg(asm.R0, asm.R1))
	case expr.Sub:
		c.add(asm.Sub.Reg(asm.R1, asm.R0), asm.Mov.Reg(asm.R0, asm.R1))
	case expr.Div, expr.Rem:
		c.divide(n)
	case expr.ShiftLeft, expr.ShiftRight:
		c.shift(n)
	}
}

// divide leaves the quotient or the remainder of R1 and R0 in R0. It uses unsigned division,
// because older kernels have no signed one.
func (c *compiler) divide(n *expr.Node) {
	op := asm.Div
	if n.Op == expr.Rem {
		op = asm.Mod
	}
	c.add(asm.JEq.Imm(asm.R0, 0, c.fault))
	if n.Type.Kind != expr.Int {
		c.add(op.Reg(asm.R1, asm.R0), asm.Mov.Reg(asm.R0, asm.R1))
		return
	}
	// R2 is negative if the result is: a remainder has the sign of R1.
	c.add(asm.Mov.Reg(asm.R2, asm.R1))
	if n.Op == expr.Div {
		c.add(asm.Xor.Reg(asm.R2, asm.R0))
	}
	for _, r := range []asm.Register{asm.R0, asm.R1} {
		positive := c.fresh("positive")
		c.add(asm.JSGE.Imm(r, 0, positive), asm.Neg.Imm(r, 0))
		c.label(positive)
	}
	positive := c.fresh("positive")
	c.add(
		op.Reg(asm.R1, asm.R0),
		asm.Mov.Reg(asm.R0, asm.R1),
		asm.JSGE.Imm(asm.R2, 0, positive),
		asm.Neg.Imm(asm.R0, 0),
	)
	c.label(positive)
}

// shift leaves R1 shifted by R0 in R0. BPF uses only six bits of a count.
func (c *compiler) shift(n *expr.Node) {
	if n.Y.Type.Kind == expr.Int {
		c.add(asm.JSLT.Imm(asm.R0, 0, c.fault))
	}
	large, done := c.fresh("large"), c.fresh("shifted")
	c.add(asm.JGE.Imm(asm.R0, 64, large))
	var all asm.Instruction // the result for a large count
	switch {
	case n.Op == expr.ShiftLeft:
		c.add(asm.LSh.Reg(asm.R1, asm.R0))
		all = asm.Mov.Imm(asm.R1, 0)
	case n.Type.Kind == expr.Int:
		c.add(asm.ArSh.Reg(asm.R1, asm.R0))
		all = asm.ArSh.Imm(asm.R1, 63)
	default:
		c.add(asm.RSh.Reg(asm.R1, asm.R0))
		all = asm.Mov.Imm(asm.R1, 0)
	}
	c.jump(done)
	c.label(large)
	c.add(all)
	c.label(done)
	c.add(asm.Mov.Reg(asm.R0, asm.R1))
}
