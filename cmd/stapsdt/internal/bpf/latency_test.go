//go:build linux

package bpf

import (
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/sdt"
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
		l, err := NewLatency(start, end, Pairing{Key: "arg0", By: by, Details: details})
		if err != nil {
			t.Fatal(err)
		}
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
		if test.got != test.want {
			t.Errorf("%q, not %q", test.got, test.want)
		}
	}
	for range 100 {
		start.Args = append(start.Args, Arg{Arg: sdt.Arg{Size: 8, Type: number}})
	}
	if got := len(strings.Fields(open(true))); got < 10 || got > record.MaxKnown+1 {
		t.Errorf("%d details", got)
	}
}
