//go:build linux && (amd64 || arm64)

package bpf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var fakePreemption = Preemption{Disable: 1001, Enable: 1002}

// TestCheckStack: a program with a large frame uses its stack only where it cannot be preempted.
func TestCheckStack(t *testing.T) {
	p := fakePreemption
	store := asm.StoreImm(asm.RFP, -56, 1, asm.Word)
	load := asm.LoadMem(asm.R1, asm.RFP, -56, asm.DWord)
	address := asm.Instructions{asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -56)}
	end := asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	disable, enable := p.call(p.Disable)[0], p.call(p.Enable)[0]
	program := func(parts ...any) (all asm.Instructions) {
		for _, part := range append(parts, end) {
			if one, ok := part.(asm.Instruction); ok {
				part = asm.Instructions{one}
			}
			all = append(all, part.(asm.Instructions)...)
		}
		return all
	}
	for name, test := range map[string]struct {
		ins asm.Instructions
		err string
	}{
		"alone":        {program(disable, store, load, address, asm.FnGetCurrentComm.Call(), enable), ""},
		"fetches":      {program(disable, store, enable, address, asm.FnCopyFromUser.Call(), disable, load, enable), ""},
		"small":        {program(asm.StoreImm(asm.RFP, -48, 1, asm.Word)), ""},
		"store":        {program(store, disable, enable), "instruction 0"},
		"load":         {program(disable, store, enable, load), "instruction 3"},
		"atomic":       {program(disable, store, enable, asm.AddAtomic.Mem(asm.RFP, asm.R1, asm.DWord, -56)), "instruction 3"},
		"helper":       {program(disable, store, enable, address, asm.FnGetCurrentComm.Call()), "instruction 5"},
		"other branch": {program(asm.JEq.Imm(asm.R1, 0, "in"), disable, store.WithSymbol("in"), enable), "instruction 2"},
	} {
		err := p.check(test.ins)
		if test.err == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, test.err, name)
		}
	}
}

// TestEachProgramAlone: programs of every kind keep nothing on a stack that another thread can write to, and the kernel loads
// them. Without the calls that forbid preemption they are refused.
func TestEachProgramAlone(t *testing.T) {
	testenv.NeedsRoot(t)
	k, err := Detect()
	require.NoError(t, err)
	text := &sdt.Type{Kind: sdt.KindPointer, Size: 8, Elem: &sdt.Type{Kind: sdt.KindChar, Size: 1}}
	number := &sdt.Type{Kind: sdt.KindInt, Size: 8}
	pair := &sdt.Type{Kind: sdt.KindPointer, Size: 8, Elem: &sdt.Type{
		Name: "pair", Kind: sdt.KindStruct, Size: 16, Fields: []sdt.Field{{Name: "text", Type: text}, {Name: "n", Type: number, Offset: 8}},
	}}
	memory := sdt.Operand{Kind: sdt.OperandMemory, Base: sdt.Register{Name: stackRegister, Full: stackRegister, Bits: 64}, Displacement: 8}
	probe := &Probe{Provider: "p", Name: "n"}
	for name, of := range map[string]*sdt.Type{"text": text, "n": number, "pair": pair} {
		probe.Args = append(probe.Args, Arg{Arg: sdt.Arg{Name: name, Size: 8, Signed: true, Type: of, Operand: memory}})
	}
	m := &Machine{Kernel: k}
	env, err := m.Env()
	require.NoError(t, err)
	t.Cleanup(func() { env.Stats.Close() })
	env.Goroutines, err = NewGoroutines()
	require.NoError(t, err)
	t.Cleanup(func() { env.Goroutines.Close() })

	const where = `text != "other" && n > 1`
	by := []string{"text", "n", "comm"}
	kinds := map[string]func() (*Section, error){
		"trace": func() (*Section, error) {
			trace, err := NewTrace(probe, where, nil, 200, true)
			require.NoError(t, err)
			trace.AddGoroutine()
			ring := newMap(t, &ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 16})
			return trace.Section(env, ring, 1)
		},
	}
	bounds := func(of expr.Type) (*query.Bounds, error) { return query.NewBounds([]float64{1, 2, 3}, 1, of) }
	for name, c := range map[string]query.Counting{
		"count": {}, "sum": {Value: "n", Rises: true}, "hist": {Value: "n", Buckets: query.Powers{}},
		"latest": {Value: "n", Latest: true}, "histogram in a row": {Value: "n", ID: "n", Bounds: bounds},
	} {
		for _, shared := range []bool{false, true} {
			c.By, c.Where = by, where
			kinds[fmt.Sprintf("%s, shared: %t", name, shared)] = func() (*Section, error) {
				a, err := NewAggregate(probe, c, nil)
				require.NoError(t, err)
				tables, err := a.NewTables(layout.Limits{Rows: 10, Shared: shared})
				require.NoError(t, err)
				t.Cleanup(tables.Close)
				return a.Section(env, tables, 1)
			}
		}
	}
	const nested = "nested calls"
	for _, key := range []string{"n", "text", query.Goroutine, query.Call, "text n", "thread text goroutine tid", nested} {
		pairing := query.Pairing{Key: strings.Fields(key), By: by, Where: []string{where}, Details: true}
		if key == nested {
			pairing = query.Pairing{Key: []string{query.Call}, By: by, Where: []string{where}, Nested: true}
		}
		l, err := NewLatency(probe, probe, pairing)
		require.NoError(t, err)
		tables, err := l.NewTables(false)
		require.NoError(t, err)
		t.Cleanup(tables.Close)
		of := Operations{OperationTables: tables, Kind: 1, Numbered: key == nested}
		kinds["start by "+key] = func() (*Section, error) { return l.Start(env, of, probe) }
		kinds["end by "+key] = func() (*Section, error) {
			end, err := l.NewEnd(probe, query.Counting{Buckets: query.Powers{}})
			require.NoError(t, err)
			rows, err := end.NewTables(layout.Limits{Rows: 10})
			require.NoError(t, err)
			t.Cleanup(rows.Close)
			return l.End(env, of, end, rows, 1)
		}
	}
	for name, section := range kinds {
		t.Run(name, func(t *testing.T) {
			s, err := section()
			require.NoError(t, err)
			prog, err := k.Load("alone", s)
			require.NoError(t, err)
			prog.Close()
			spec := k.program("alone", []*Section{s})
			require.Greater(t, frame(spec.Instructions), ownStack)
			require.NotZero(t, spec.Flags&unix.BPF_F_SLEEPABLE)
			if k.Preemption != (Preemption{}) {
				require.Error(t, k.Preemption.check(s.ins), "it may be preempted")
			}
		})
	}
}

// TestShape: sections that differ only in their IDs have one program, which the cookie tells apart. The IDs are
// constants if a program has several, or if there is no uprobe_multi.
func TestShape(t *testing.T) {
	testenv.NeedsRoot(t)
	k := Kernel{Multi: true}
	probe := &Probe{Provider: "p", Name: "n"}
	env := &Env{Kernel: k, Stats: newMap(t, &ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 64, MaxEntries: 1})}
	a, err := NewAggregate(probe, query.Counting{By: []string{"pid"}}, nil)
	require.NoError(t, err)
	tables, err := a.NewTables(layout.Limits{Rows: 10})
	require.NoError(t, err)
	t.Cleanup(tables.Close)
	ring := newMap(t, &ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 4096})
	count := func(id uint32) *Section {
		s, err := a.Section(env, tables, id)
		require.NoError(t, err)
		return s
	}
	show := func(id uint32) *Section {
		trace, err := NewTrace(probe, "", nil, 16, false)
		require.NoError(t, err)
		s, err := trace.Section(env, ring, id)
		require.NoError(t, err)
		return s
	}
	nothing, err := k.Nothing()
	require.NoError(t, err)
	for name, section := range map[string]func(uint32) *Section{"count": count, "show": show} {
		for kind, other := range map[string][]*Section{"alone": nil, "after another": {nothing}} {
			first, one := k.Shape(append(other, section(1)))
			second, two := k.Shape(append(other, section(2)))
			require.Equal(t, first, second, "%s %s", name, kind)
			require.Equal(t, []uint64{1, 2}, []uint64{one, two}, "%s %s", name, kind)
		}
		first, _ := Kernel{}.Shape([]*Section{section(1)})
		second, cookie := Kernel{}.Shape([]*Section{section(2)})
		require.NotEqual(t, first, second, name)
		require.Zero(t, cookie)
	}
	both, cookie := k.Shape([]*Section{count(1), show(1)})
	other, _ := k.Shape([]*Section{count(1), show(2)})
	require.NotEqual(t, both, other)
	require.Zero(t, cookie)
	one, _ := k.Shape([]*Section{count(1)})
	other, _ = k.Shape([]*Section{show(1)})
	require.NotEqual(t, one, other)
}

func newMap(t *testing.T, spec *ebpf.MapSpec) *ebpf.Map {
	m, err := ebpf.NewMap(spec)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}
