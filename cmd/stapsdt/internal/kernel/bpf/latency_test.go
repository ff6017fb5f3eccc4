//go:build linux

package bpf

import (
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLatencyDetails: what the start has is in an open operation, as far as there is room, and
// what the end has too is counted by the end.
func TestLatencyDetails(t *testing.T) {
	number := &sdt.Type{Kind: sdt.KindUint, Size: 8}
	probe := func(name string, args ...string) *Probe {
		p := &Probe{Provider: "p", Name: name}
		for _, arg := range args {
			p.Args = append(p.Args, Arg{Arg: sdt.Arg{Name: arg, Size: 8, Type: number}})
		}
		return p
	}
	start, end := probe("start", "id", "path", "host", ""), probe("end", "id", "path")
	open := func(details bool, by ...string) string {
		l, err := NewLatency(start, end, query.Pairing{Key: []string{"arg0"}, By: by, Details: details})
		require.NoError(t, err)
		var names []string
		for i, item := range l.Open {
			if i == l.OpenBy {
				names = append(names, "|")
			}
			names = append(names, item.Name)
		}
		return strings.Join(names, " ")
	}
	for _, test := range []struct{ got, want string }{
		{open(false, "path", "host"), "host"},
		{open(true), "| path host arg3"},
		{open(true, "path+1", "host"), "path+1 host | path arg3"},
		{open(true, "arg1"), "arg1 | host arg3"},
	} {
		assert.Equal(t, test.want, test.got)
	}
	end.Args = append(end.Args, Arg{Arg: sdt.Arg{Name: "status", Size: 8, Type: number}})
	for _, p := range []query.Pairing{{By: []string{"status"}}, {Where: []string{"status == 0"}}} {
		p.Key = []string{"arg0"}
		_, err := NewLatency(start, end, p)
		assert.NoError(t, err)
		p.AtStart = true
		_, err = NewLatency(start, end, p)
		assert.ErrorContains(t, err, query.OnlyStart)
	}
	for range 100 {
		start.Args = append(start.Args, Arg{Arg: sdt.Arg{Size: 8, Type: number}})
	}
	details := strings.Fields(open(true))
	assert.GreaterOrEqual(t, len(details), 10)
	assert.LessOrEqual(t, len(details), layout.MaxKnown+1)
}

// TestLatencyKey: the parts of a key follow one another, and each has the same place and type at both probes.
func TestLatencyKey(t *testing.T) {
	number, text := &sdt.Type{Kind: sdt.KindUint, Size: 8}, &sdt.Type{Kind: sdt.KindStruct, Size: 16, Fields: []sdt.Field{
		{Name: "str", Type: &sdt.Type{Kind: sdt.KindPointer}}, {Name: "len", Offset: 8},
	}}
	probe := func(name string, types ...*sdt.Type) *Probe {
		p := &Probe{Provider: "p", Name: name}
		for i, of := range types {
			arg := Arg{Arg: sdt.Arg{Name: string(rune('a' + i)), Size: 8, Type: of}}
			if of == text {
				arg.Length = &sdt.Operand{}
			}
			p.Args = append(p.Args, arg)
		}
		return p
	}
	start, end := probe("start", text, number, text, number), probe("end", text, number, number)
	l, err := NewLatency(start, end, query.Pairing{Key: []string{"a", "thread", "arg1", "a"}, Details: true})
	require.NoError(t, err)
	at := layout.KeyHeader
	for i, size := range []int{textSlot, 8, 8, textSlot} {
		require.Equal(t, []int{at, size}, []int{l.Key[i].Offset, l.Key[i].Size})
		at += size
	}
	require.Equal(t, at, l.keySize)
	for _, item := range l.Open {
		require.NotContains(t, []string{"a", "b"}, item.Name, "it is a part of the key")
	}
	_, err = l.sameKey(end)
	require.NoError(t, err)
	for key, want := range map[string]string{
		"a,c": "the key c is a uint64 here, but a string at another probe", "a,d": "undefined: d",
	} {
		l, err := NewLatency(start, end, query.Pairing{Key: strings.Split(key, ",")})
		require.NoError(t, err)
		_, err = l.sameKey(end)
		require.ErrorContains(t, err, want)
	}
	_, err = NewLatency(start, end, query.Pairing{Key: strings.Split(strings.Repeat("a,", 7)+"b", ",")})
	require.ErrorIs(t, err, errStack)
}
