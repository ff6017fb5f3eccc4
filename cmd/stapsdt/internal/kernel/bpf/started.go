//go:build linux

package bpf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
)

// Started tells the program of an end where the start of its operation is: the program takes the
// operation from the map of open ones. It runs only for operations whose start was seen.
type Started struct {
	// Plan is from NewKept.
	Plan *Latency
	Of   Operations
}

// NewKept returns the plan of operations for Started. The start program keeps the values of some
// expressions of the start until the end, and its stack unless stacks is nil. key pairs them, as in
// query.Pairing.
func NewKept(
	start *Probe, key string, exprs []string, stacks *layout.StackTable,
) (*Latency, error) {
	l := &Latency{
		pairing: query.Pairing{Key: []string{key}, Details: true}, atStart: map[string]int{},
		valueSize: layout.OpenHeader, kept: true, stacks: stacks,
	}
	parts, size, err := keyItems(l.pairing.Key, start.pairItem)
	if err != nil {
		return nil, err
	}
	l.Key, l.keySize = itemsOf(parts), size
	if len(exprs) > layout.MaxKnown {
		return nil, fmt.Errorf("%d values of %v are used, but at most %d can be", len(exprs), start, layout.MaxKnown)
	}
	for _, src := range exprs {
		item, err := start.keyItem(src, l.valueSize)
		if err != nil {
			return nil, err
		}
		item.keep()
		l.Open = append(l.Open, item.Item)
		l.valueSize += item.Size
	}
	if stacks != nil {
		l.valueSize += layout.StackKey
	}
	return l, nil
}

// stackAt is the offset of the stack in the value of an operation.
func (l *Latency) stackAt() int16 { return int16(l.valueSize) - layout.StackKey }

// keep makes room for the length of a string after its bytes.
func (i *item) keep() {
	if i.kept = i.Type.Kind == expr.String && i.Size == textSlot; i.kept {
		i.Size += 8
	}
}

// keepLength stores the length of a string after the slot of a kept item.
func (b *builder) keepLength(item *item, value int16) {
	if s, isText := item.text(); isText && item.kept {
		b.add(
			asm.LoadMem(asm.R0, asm.RFP, b.text(s).length, asm.DWord),
			asm.StoreMem(asm.RFP, value+int16(item.Offset)+textSlot, asm.R0, asm.DWord),
		)
	}
}

// Has reports whether the probe has everything that an expression uses.
func (p *Probe) Has(src string) bool {
	_, err := p.Parse(src)
	return err == nil
}

// Layout is equal for starts that keep equal kinds of values of expressions: an end shows them as
// those of its own file.
func (p *Probe) Layout(exprs []string) string {
	var b strings.Builder
	for _, src := range exprs {
		e, err := p.Parse(src)
		if err != nil {
			continue
		}
		one := p.item(e)
		fmt.Fprintf(
			&b, "%q %d %d %d %t %t %v ", src, one.Type.Kind, one.Type.Size, one.Type.Unit,
			one.IsGo, one.IsBytes, one.Constants,
		)
		if one.Names != nil {
			fmt.Fprintf(&b, "%p ", one.Names)
		}
	}
	return b.String()
}

// HasArg reports whether an expression is an argument of the probe, or a field of one, or a text to
// which one points.
func (p *Probe) HasArg(src string) bool {
	e, err := p.Parse(src)
	return err == nil && e.Root.Op == expr.Load && slices.Contains(
		[]sourceKind{fromArg, fromText}, e.vars.sources[e.Root.Var].kind,
	)
}

// Sizes returns the sizes of the key and of the value of an open operation in its table.
func (l *Latency) Sizes() (key, value int) { return l.keySize, l.valueSize }

// addStarted adds the variables of an end that Started gives it. The end's own ones precede them.
func (p *Probe) addStarted(v *variables) {
	if p.Started != nil || p.timed {
		v.add(query.ElapsedName, query.Elapsed, origin{kind: fromElapsed})
	}
	if p.Started == nil {
		return
	}
	for i, one := range p.Started.Plan.Open {
		name := query.StartPrefix + one.Name
		if inner, ok := strings.CutPrefix(one.Name, "str("); ok {
			name = "str(" + query.StartPrefix + inner
		}
		v.add(name, one.Type, origin{fromStart, i})
		v.add(one.Name, one.Type, origin{fromStart, i})
	}
}

// elapsed returns the item for the time since the start, if the probe has it from Started.
func (p *Probe) elapsed() (one item, ok bool) {
	if p.Started == nil {
		return one, false
	}
	e, err := p.Parse(query.ElapsedName)
	if err != nil {
		return one, false
	}
	one = p.item(e)
	return one, one.source.kind == fromElapsed
}

// Shows returns the number of values that an event shows: the arguments, and elapsed if the probe
// has it from Started.
func (p *Probe) Shows() int {
	if _, ok := p.elapsed(); ok {
		return len(p.Args) + 1
	}
	return len(p.Args)
}

// setStarted describes the value of a start like the value that the start keeps.
func (p *Probe) setStarted(one *item, i int) {
	kept := &p.Started.Plan.Open[i]
	one.Names, one.Constants = kept.Names, kept.Constants
	one.IsGo, one.IsBytes, one.Unreadable = kept.IsGo, kept.IsBytes, kept.Unreadable
}

// textSize returns the number of bytes of an item's string that a record can show, if size are
// asked for. Of a string of the start, the record has no byte more, which would tell a longer one:
// a string of all that was kept counts as cut.
func (i *item) textSize(size int) int {
	if i.source.kind == fromStart {
		return min(size, value.TextSize-1)
	}
	return size
}

// starting is the part of a program that Started has added.
type starting struct {
	*Started
	key, owner, known int16   // stack offsets
	at                []int16 // of the values
	stack             int16   // of the process and the stack of the start
}

// beginStarted makes labelTake the end of the program, if the probe has Started.
func (b *builder) beginStarted() {
	if b.probe == nil || b.probe.Started == nil {
		return
	}
	s := &starting{Started: b.probe.Started}
	size := int16(s.Plan.keySize)
	s.key, s.known = b.alloc(size), b.alloc(8)
	b.zero(s.key, size) // labelTake uses it in any case
	b.exit, b.starting = labelTake, s
}

// started adds the values of the start to the program of an end, which it leaves if the start was
// not seen. The operation stays open until the end of the program, because the section may begin
// again until then.
func (b *builder) started() {
	s := b.starting
	if s == nil {
		return
	}
	b.unlessStopped(s.Of)
	plan := s.Plan
	parts, err := plan.sameKey(b.probe)
	if err != nil {
		b.fail(err)
		return
	}
	b.now()
	b.reserve(parts, s.key)
	b.pairKey(parts, s.key, s.Of)
	b.lookup(s.Of.Open.FD(), s.key)
	elapsed := b.alloc(8)
	b.add(
		asm.JEq.Imm(asm.R0, 0, labelUnpaired),
		asm.LoadMem(asm.R1, asm.R0, layout.OpenTime, asm.DWord),
		asm.Mov.Reg(asm.R2, regTime), asm.Sub.Reg(asm.R2, asm.R1),
		asm.StoreMem(asm.RFP, elapsed, asm.R2, asm.DWord),
	)
	b.nums[origin{kind: fromElapsed}] = elapsed
	b.copy(asm.RFP, s.known, asm.R0, layout.OpenKnown, 8)
	for i := range plan.Open {
		s.at = append(s.at, b.keptValue(&plan.Open[i], i))
	}
	if plan.stacks != nil {
		s.stack = b.alloc(layout.StackKey)
		b.copy(asm.RFP, s.stack, asm.R0, plan.stackAt(), layout.StackKey)
	}
	if s.Of.Shares != nil {
		s.owner = b.alloc(8)
		b.copy(asm.RFP, s.owner, asm.R0, layout.OpenOwner, 8)
	}
}

// keptValue copies a value of the operation in R0 to the stack, and returns its offset there. The
// length of a string is on the stack after the slot, or before it if that is part of a key.
func (b *builder) keptValue(one *value.Item, i int) (at int16) {
	s := origin{fromStart, i}
	at, isKey := b.place[s]
	if !isKey || one.Type.Kind != expr.String {
		at = b.alloc(int16(one.Size))
		b.copy(asm.RFP, at, asm.R0, int16(one.Offset), int16(one.Size))
		return at
	}
	length := b.alloc(8)
	b.copy(asm.RFP, at, asm.R0, int16(one.Offset), textSlot)
	b.copy(asm.RFP, length, asm.R0, int16(one.Offset)+textSlot, 8)
	b.lengths[s] = length
	return at
}

// startVariable makes a value of the start a variable of the end. It jumps to unreadable if the
// start could not read it.
func (b *builder) startVariable(s origin, unreadable string) {
	b.add(
		asm.LoadMem(asm.R0, asm.RFP, b.starting.known, asm.DWord),
		asm.And.Imm(asm.R0, 1<<s.arg),
		asm.JEq.Imm(asm.R0, 0, unreadable),
	)
	one, at := &b.starting.Plan.Open[s.arg], b.starting.at[s.arg]
	if one.Type.Kind != expr.String {
		b.nums[s] = at
		return
	}
	length, isKey := b.lengths[s]
	if !isKey {
		length = at + textSlot
	}
	b.texts[s] = &text{at: at, size: textSlot, length: length, isGo: one.IsGo}
}

// endStarted emits labelTake, which takes the operation, and labelUnpaired.
func (b *builder) endStarted() {
	s := b.starting
	if s == nil {
		return
	}
	b.label(labelTake)
	b.remove(s.Of.Open, s.key)
	if s.Of.Shares != nil {
		b.add(asm.JNE.Imm(asm.R0, 0, labelExit)) // another end has taken it meanwhile
		b.leave(s.Of.Shares, s.owner)
	}
	b.jump(labelExit)
	b.label(labelUnpaired)
	b.total(s.Of, layout.TotalEnds)
	b.jump(labelExit)
}

// Kept returns the arguments of a start that names may mean, by their names at the start.
func (p *Probe) Kept(names []string) (exprs []string) {
	for _, name := range names {
		arg, _ := query.OfStart(name)
		if !slices.Contains(exprs, arg) && p.HasArg(arg) {
			exprs = append(exprs, arg)
		}
	}
	return exprs
}
