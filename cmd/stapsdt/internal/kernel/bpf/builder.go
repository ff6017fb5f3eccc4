//go:build linux

package bpf

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Registers by their contents in every program.
const (
	regContext = asm.R6
	regRecord  = asm.R7
	regTime    = asm.R8
	regMissing = asm.R9
)

const (
	// textRead includes the NUL, and textSlot fills a word.
	textRead = value.TextSize + 1
	textSlot = value.TextSize + 8
	// stackSize is the limit of BPF.
	stackSize = 512
	// page is the smallest size of a page: a read of at most this size touches two pages.
	page = 4096
)

// errStack means that an expression has too many variables.
var errStack = errors.New("this needs more than the 512 bytes of a BPF program's stack: use fewer texts or keys")

// text is a string on the stack: its bytes, followed by the result of the helper.
type text struct {
	at, size int16
	length   int16
	isGo     bool // a Go string, which can contain NULs
}

// builder generates the code of one section.
type builder struct {
	code
	env   *Env
	probe *Probe

	depth, most int16 // the size of the stack in use, now and at most

	word  int16            // scratch
	temps []int16          // temporaries of expressions
	nums  map[origin]int16 // the offsets of the numbers that were fetched
	texts map[origin]*text // the strings that were fetched
	// place holds the offsets of strings that are part of a key.
	place map[origin]int16
	fault string // the target of a jump if something cannot be evaluated
	sleep bool   // whether the program reads memory, and may sleep to do so

	first    int   // the first instruction after the prologue
	restarts bool  // whether the prologue begins the section's attempts
	attempt  int16 // counts the section's restarts, if it may sleep
	reserved bool  // whether regRecord is a record of a ring buffer
	absent   []pages

	exit     string           // where the program goes once it has decided about the event
	starting *starting        // nil unless the probe has Started
	lengths  map[origin]int16 // the offsets of the lengths of kept strings that are in a key

	numbered bool   // whether the section uses its id
	id       uint32 // of the section

	err error // the first error, which section returns
}

func newBuilder(env *Env, probe *Probe) *builder {
	b := &builder{
		env: env, probe: probe, nums: map[origin]int16{}, texts: map[origin]*text{},
		place: map[origin]int16{}, fault: labelFault, exit: labelExit,
		lengths: map[origin]int16{},
	}
	b.alias = map[string]string{}
	b.word = b.alloc(8)
	if env.Kernel.Sleepable {
		b.attempt = b.alloc(8)
	}
	return b
}

// fail records an error, unless it is nil or not the first one. The code that follows is not used.
func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// alloc reserves a part of the stack. finish checks the limit.
func (b *builder) alloc(size int16) int16 {
	b.depth += (size + 7) &^ 7
	b.most = max(b.most, b.depth)
	return -b.depth
}

// scope runs f and then discards what b knows about variables that f put on the stack: f may have
// branches that skip them.
func (b *builder) scope(f func()) {
	depth, temps, nums, texts, fault := b.depth, b.temps, b.nums, b.texts, b.fault
	b.temps, b.nums, b.texts = slices.Clone(temps), maps.Clone(nums), maps.Clone(texts)
	defer func() { b.depth, b.temps, b.nums, b.texts, b.fault = depth, temps, nums, texts, fault }()
	f()
}

func (b *builder) finish() (asm.Instructions, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.most > stackSize {
		return nil, errStack
	}
	return b.code.finish()
}

// begin emits the prologue of every program, which exits unless the process, its user and its
// control group are selected.
func (b *builder) begin() {
	b.add(asm.Mov.Reg(regContext, asm.R1))
	b.first = len(b.ins)
	b.beginStarted()
	if b.probe != nil && b.probe.Restarts {
		b.onlyCalls()
	}
	if b.env.Cgroups != nil {
		b.add(asm.FnGetCurrentCgroupId.Call(), asm.StoreMem(asm.RFP, b.word, asm.R0, asm.DWord))
		b.lookup(b.env.Cgroups.FD(), b.word)
		b.add(asm.JEq.Imm(asm.R0, 0, labelExit))
	}
	if b.env.User != nil {
		b.processNumber(fromUID)
		b.constant(asm.R1, int64(*b.env.User))
		b.add(asm.JNE.Reg(asm.R0, asm.R1, labelExit))
	}
	if b.env.Processes == nil {
		return
	}
	b.pidTgid()
	b.add(asm.RSh.Imm(asm.R0, 32))
	selected := b.fresh("selected")
	for _, pid := range b.env.Roots[:min(len(b.env.Roots), maxRoots)] {
		b.add(asm.JEq.Imm(asm.R0, int32(pid), selected))
	}
	b.add(asm.StoreMem(asm.RFP, b.word, asm.R0, asm.Word))
	b.lookup(b.env.Processes.FD(), b.word)
	b.add(asm.JEq.Imm(asm.R0, 0, labelExit))
	b.label(selected)
}

// maxRoots is the largest number of PIDs for which comparisons are faster than a lookup in the set.
const maxRoots = 4

// end emits the epilogue of every program. labels.go draws it.
func (b *builder) end() {
	b.jump(b.exit)
	for _, s := range []struct {
		label string
		index uint32
	}{
		{labelFault, layout.StatUnevaluated}, {labelLost, layout.StatLost},
		{labelForeign, layout.StatForeign},
	} {
		b.label(s.label)
		b.increment(b.env.Stats, s.index, 0)
		b.jump(b.exit)
	}
	b.endStarted()
	b.endAttempts()
	b.leaveProgram()
}

// leaveProgram emits the return at labelExit.
func (b *builder) leaveProgram() {
	b.label(labelExit)
	b.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// increment adds one to the word at an offset of an array element.
func (b *builder) increment(array *ebpf.Map, index uint32, offset int16) {
	b.element(array, index, labelExit)
	b.add(asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, offset))
}

// element leaves the address of an array element in R0. The jump to none is never taken, but the
// verifier needs it.
func (b *builder) element(array *ebpf.Map, index uint32, none string) {
	b.add(asm.StoreImm(asm.RFP, b.word, int64(index), asm.Word))
	b.lookup(array.FD(), b.word)
	b.add(asm.JEq.Imm(asm.R0, 0, none))
}

// lookup leaves the address of the value for the key at a stack offset in R0, or 0 if there is
// none.
func (b *builder) lookup(fd int, key int16) {
	b.add(asm.LoadMapPtr(asm.R1, fd))
	b.stack(asm.R2, key)
	b.add(asm.FnMapLookupElem.Call())
}

// update stores the value at a stack offset under the key at another offset. It leaves 0 or an
// error in R0.
func (b *builder) update(table *ebpf.Map, key, value int16, flags ebpf.MapUpdateFlags) {
	b.add(asm.LoadMapPtr(asm.R1, table.FD()))
	b.stack(asm.R2, key)
	b.stack(asm.R3, value)
	b.add(asm.Mov.Imm(asm.R4, int32(flags)), asm.FnMapUpdateElem.Call())
}

// remove removes the key at a stack offset. It leaves 0 or an error in R0.
func (b *builder) remove(table *ebpf.Map, key int16) {
	b.add(asm.LoadMapPtr(asm.R1, table.FD()))
	b.stack(asm.R2, key)
	b.add(asm.FnMapDeleteElem.Call())
}

// zero zeroes words of the stack. It changes R5.
func (b *builder) zero(at, size int16) {
	b.add(asm.Mov.Imm(asm.R5, 0))
	for i := int16(0); i < size; i += 8 {
		b.add(asm.StoreMem(asm.RFP, at+i, asm.R5, asm.DWord))
	}
}

// copy copies words from an offset of a register to an offset of another one. It changes R1.
func (b *builder) copy(to asm.Register, at int16, from asm.Register, offset, size int16) {
	for i := int16(0); i < size; i += 8 {
		b.add(
			asm.LoadMem(asm.R1, from, offset+i, asm.DWord),
			asm.StoreMem(to, at+i, asm.R1, asm.DWord),
		)
	}
}

// evaluate leaves the value of an expression in R0.
func (b *builder) evaluate(e *Expr) {
	b.fetch(e, e.Root)
	(&compiler{b, e}).value(e.Root)
}

// filter evaluates a condition and jumps to no if it is false. It fetches each variable only when
// an operand of && needs it.
func (b *builder) filter(e *Expr, no string) {
	if e == nil {
		return
	}
	for _, part := range conjuncts(e.Root, nil) {
		b.fetch(e, part)
		next := b.fresh("and")
		(&compiler{b, e}).cond(part, next, no)
		b.label(next)
	}
}

func conjuncts(n *expr.Node, all []*expr.Node) []*expr.Node {
	if n.Op == expr.And {
		return conjuncts(n.Y, conjuncts(n.X, all))
	}
	return append(all, n)
}

// fetch puts the variables of a subexpression on the stack. If one cannot be read, the program
// jumps to b.fault.
func (b *builder) fetch(e *Expr, n *expr.Node) {
	if n == nil {
		return
	}
	if n.Op == expr.Load {
		if err := b.variable(e.vars.sources[n.Var], b.fault); err != nil {
			b.fail(&expr.Error{Src: e.String(), Pos: n.Pos, Msg: err.Error()})
		}
		return
	}
	if s, ok := b.lengthOf(e, n); ok {
		if err := b.variable(s, b.fault); err != nil {
			b.fail(&expr.Error{Src: e.String(), Pos: n.Pos, Msg: err.Error()})
		}
		return
	}
	b.fetch(e, n.X)
	b.fetch(e, n.Y)
}

// lengthOf returns the source of the length of a Go string. Its operand holds the length, however
// long the string is. ok is false if the node is not such a length.
func (b *builder) lengthOf(e *Expr, n *expr.Node) (s origin, ok bool) {
	if n.Op != expr.Len || n.X.Op != expr.Load {
		return s, false
	}
	s = e.vars.sources[n.X.Var]
	ok = s.kind == fromText && b.probe.arg(s.arg).Length != nil
	s.kind = fromLength
	return s, ok
}

// text returns a string that was fetched, or an empty one after an error.
func (b *builder) text(s origin) *text { return cmp.Or(b.texts[s], &text{}) }

// variable puts a variable on the stack, unless it is already there.
func (b *builder) variable(s origin, unreadable string) error {
	if _, ok := b.nums[s]; ok || b.texts[s] != nil {
		return nil
	}
	switch s.kind {
	case fromText:
		return b.textVariable(s, unreadable)
	case fromComm, fromExecutable:
		return b.ownText(s, unreadable)
	case fromNamespace, fromPod, fromContainer, fromWorkload, fromNode:
		return b.podText(s)
	case fromStart:
		b.startVariable(s, unreadable)
		return nil
	}
	at := b.alloc(8)
	if s.kind == fromLength {
		a := b.probe.arg(s.arg)
		if err := b.operand(*a.Length, *a, unreadable); err != nil {
			return err
		}
	} else if s.kind == fromFailed {
		if err := b.hasFailed(unreadable); err != nil {
			return err
		}
	} else if s.kind != fromArg {
		b.processNumber(s.kind)
	} else if err := b.argument(s.arg, unreadable); err != nil {
		return err
	}
	b.add(asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
	b.nums[s] = at
	return nil
}

// textVariable reads the string that an argument points to. The rest of its slot is zeroed, so that
// strings can be compared and used as keys.
func (b *builder) textVariable(s origin, unreadable string) error {
	t := b.emptyText(s)
	addr := origin{fromArg, s.arg}
	if err := b.variable(addr, unreadable); err != nil {
		return err
	}
	a := b.probe.arg(s.arg)
	t.isGo = a.Length != nil
	addrAt := b.nums[addr]
	if err := b.readArg(s.arg, asm.RFP, t.at, value.TextSize, addrAt, unreadable); err != nil {
		return err
	}
	b.add(asm.StoreMem(asm.RFP, t.length, asm.R0, asm.DWord))
	if value.IsBytes(a.Type) {
		b.add(asm.StoreMem(asm.RFP, t.at+value.KeyLength, asm.R0, asm.Byte))
	}
	return nil
}

// readArg reads the string of an argument, whose address is on the stack, to an offset from a
// register. It reads at most most bytes and a NUL. R0 is the length including the NUL.
func (b *builder) readArg(
	arg int, to asm.Register, offset int16, most int32, addr int16, unreadable string,
) error {
	if b.probe.arg(arg).Length == nil {
		b.readText(to, offset, most+1, addr)
	} else {
		length, err := b.stringLength(arg, unreadable)
		if err != nil {
			return err
		}
		b.readString(to, offset, most, addr, length)
	}
	b.add(asm.JSLT.Imm(asm.R0, 0, unreadable))
	return nil
}

// emptyText zeroes the slot of a string, which it reserves unless the string has a place in a key,
// and reserves a word for its length.
func (b *builder) emptyText(s origin) *text {
	at, isKey := b.place[s]
	t := &text{at: at, size: textSlot, length: b.alloc(8)}
	if !isKey {
		t.at = b.alloc(textSlot)
	}
	b.zero(t.at, textSlot)
	b.texts[s] = t
	return t
}

// readText reads the string whose address is on the stack to an offset from a register. R0 is its
// length including the NUL, or negative if it cannot be read.
func (b *builder) readText(to asm.Register, offset int16, size int32, addr int16) {
	b.add(
		asm.Mov.Reg(asm.R1, to), asm.Add.Imm(asm.R1, int32(offset)), asm.Mov.Imm(asm.R2, size),
		asm.LoadMem(asm.R3, asm.RFP, addr, asm.DWord),
		asm.FnProbeReadUserStr.Call(),
	)
	b.orFetch(addr, true)
}

// readWord reads size bytes from the address in R3 into R0 and zeroes the rest. It jumps to
// unreadable on failure.
func (b *builder) readWord(size int32, unreadable string) {
	b.zero(b.word, 8)
	b.readStack(b.word, size, unreadable)
	b.add(asm.LoadMem(asm.R0, asm.RFP, b.word, asm.DWord))
}

// readStack reads size bytes from the address in R3 to a stack offset. It jumps to unreadable on
// failure.
func (b *builder) readStack(to int16, size int32, unreadable string) {
	addr := b.alloc(8)
	b.add(asm.StoreMem(asm.RFP, addr, asm.R3, asm.DWord))
	b.stack(asm.R1, to)
	b.add(asm.Mov.Imm(asm.R2, size), asm.FnProbeReadUser.Call())
	b.orFetch(addr, false)
	b.add(asm.JNE.Imm(asm.R0, 0, unreadable))
}
