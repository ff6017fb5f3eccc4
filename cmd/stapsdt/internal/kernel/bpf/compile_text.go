//go:build linux

package bpf

import (
	"encoding/binary"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
)

// textOf returns the string of a variable.
func (c *compiler) textOf(n *expr.Node) *text {
	if n.Op != expr.Load {
		c.refuse(n, "one of the texts must be a variable, and the other a constant")
	}
	return c.text(c.e.vars.sources[n.Var])
}

// length leaves the length of a string in R0. It jumps to fault if a string without an operand for
// its length was not read completely.
func (c *compiler) length(n *expr.Node) {
	if s, ok := c.lengthOf(c.e, n); ok {
		c.add(asm.LoadMem(asm.R0, asm.RFP, c.nums[s], asm.DWord))
		return
	}
	t := c.textOf(n.X)
	if t.size == layout.CommSize {
		c.refuse(n, "the length of comm is unknown")
	}
	c.full(t)
	c.add(asm.Sub.Imm(asm.R0, 1))
}

// full leaves the length with the NUL in R0, if the string was read to its end. The helper puts a
// NUL at the end of a string that it cuts, so a string of exactly that length counts as cut.
func (c *compiler) full(t *text) {
	c.add(
		asm.LoadMem(asm.R0, asm.RFP, t.length, asm.DWord),
		asm.JSGE.Imm(asm.R0, textRead, c.fault),
	)
}

// constantText returns the value of a string that must be a constant.
func (c *compiler) constantText(n *expr.Node, most int) string {
	s := n.Value.Text()
	switch {
	case n.Op != expr.Const:
		c.refuse(n, "a text is compared with constants only")
	case len(s) > most:
		c.refuse(n, "the constant has %d bytes, but at most %d can be compared", len(s), most)
		return ""
	case strings.Contains(s, "\x00"):
		c.refuse(n, "texts end with a NUL, and this constant contains one")
	}
	return s
}

func (c *compiler) compareTexts(n *expr.Node, yes, no string) {
	x, y := n.X, n.Y
	if x.Op == expr.Const {
		x, y = y, x
	}
	t := c.textOf(x)
	switch n.Op {
	case expr.Equal:
	case expr.NotEqual:
		yes, no = no, yes
	default:
		c.refuse(n, "texts are compared with == and != only")
	}
	most := value.TextSize - 1
	if t.size == layout.CommSize {
		most = layout.CommSize - 1
	}
	s := c.constantText(y, most)
	c.match(t, s+"\x00", no)
	if t.isGo {
		c.add(
			asm.LoadMem(asm.R0, asm.RFP, t.length, asm.DWord),
			asm.JNE.Imm(asm.R0, int32(len(s)+1), no),
		)
	}
	c.jump(yes)
}

// match jumps to no if a string does not begin with a constant.
func (c *compiler) match(t *text, s string, no string) {
	for i := 0; i < len(s); i += 8 {
		var word, mask [8]byte
		n := copy(word[:], s[i:])
		for j := range n {
			mask[j] = 0xff
		}
		c.add(asm.LoadMem(asm.R0, asm.RFP, t.at+int16(i), asm.DWord))
		if n < 8 {
			c.constant(asm.R1, int64(binary.NativeEndian.Uint64(mask[:])))
			c.add(asm.And.Reg(asm.R0, asm.R1))
		}
		c.constant(asm.R1, int64(binary.NativeEndian.Uint64(word[:])))
		c.add(asm.JNE.Reg(asm.R0, asm.R1, no))
	}
}

// search implements strings.HasPrefix, HasSuffix and Contains of a variable and a constant.
func (c *compiler) search(n *expr.Node, yes, no string) {
	t := c.textOf(n.X)
	most, length := value.MaxContains, value.TextSize
	if t.size == layout.CommSize {
		length = layout.CommSize - 1
	}
	if n.Op == expr.HasPrefix {
		most = length
	}
	s := c.constantText(n.Y, most)
	if s == "" || n.Op == expr.HasPrefix {
		c.match(t, s, no)
		c.jump(yes)
		return
	}
	if n.Op == expr.HasSuffix && t.size == textSlot {
		c.full(t)
	}
	c.roll(t, s, n.Op, length, yes, no)
}

// unlessEnd jumps to more unless the string ends at an index, whose byte is in R0. A Go string can
// contain NULs. A jump that depends on them would make the verifier visit the rest of the string
// twice.
func (c *compiler) unlessEnd(t *text, i int, more string) {
	if t.isGo {
		c.add(
			asm.LoadMem(asm.R5, asm.RFP, t.length, asm.DWord),
			asm.JNE.Imm(asm.R5, int32(i+1), more),
		)
	} else {
		c.add(asm.JNE.Imm(asm.R0, 0, more))
	}
}

// roll keeps the last 16 bytes of a string in R1 and R2. It compares them with R3 and R4 after each
// byte, or once at the end for a suffix.
func (c *compiler) roll(t *text, s string, op expr.Op, length int, yes, no string) {
	// The registers hold big-endian numbers: the last byte is the lowest.
	var high, low, highMask, lowMask uint64
	for i := range len(s) {
		high, low = high<<8|low>>56, low<<8|uint64(s[i])
		highMask, lowMask = highMask<<8|lowMask>>56, lowMask<<8|0xff
	}
	c.add(asm.Mov.Imm(asm.R1, 0), asm.Mov.Imm(asm.R2, 0))
	c.constant(asm.R3, int64(low))
	c.constant(asm.R4, int64(high))
	for i := range length + 1 {
		c.add(asm.LoadMem(asm.R0, asm.RFP, t.at+int16(i), asm.Byte))
		next := c.fresh("byte")
		c.unlessEnd(t, i, next)
		if op == expr.HasSuffix {
			c.compareRolled(s, lowMask, highMask, yes, no)
		} else {
			c.jump(no)
		}
		c.label(next)
		if i == length {
			break
		}
		if len(s) > 8 {
			c.add(
				asm.Mov.Reg(asm.R5, asm.R2),
				asm.RSh.Imm(asm.R5, 56),
				asm.LSh.Imm(asm.R1, 8),
				asm.Or.Reg(asm.R1, asm.R5),
			)
		}
		c.add(asm.LSh.Imm(asm.R2, 8), asm.Or.Reg(asm.R2, asm.R0))
		if op == expr.Contains && i+1 >= len(s) {
			differs := c.fresh("differs")
			c.compareRolled(s, lowMask, highMask, yes, differs)
			c.label(differs)
		}
	}
	c.jump(no)
}

// compareRolled jumps to yes if the last bytes equal the constant.
func (c *compiler) compareRolled(s string, lowMask, highMask uint64, yes, no string) {
	c.add(asm.Mov.Reg(asm.R0, asm.R2))
	if len(s) < 8 {
		c.constant(asm.R5, int64(lowMask))
		c.add(asm.And.Reg(asm.R0, asm.R5))
	}
	c.add(asm.JNE.Reg(asm.R0, asm.R3, no))
	if len(s) > 8 {
		c.add(asm.Mov.Reg(asm.R0, asm.R1))
		if len(s) < 16 {
			c.constant(asm.R5, int64(highMask))
			c.add(asm.And.Reg(asm.R0, asm.R5))
		}
		c.add(asm.JNE.Reg(asm.R0, asm.R4, no))
	}
	c.jump(yes)
}
