//go:build linux

package bpf

import (
	"math/rand/v2"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Sample are the names and types of the arguments for which RandomExpression and RandomValues are.
func Sample() (names []string, types []expr.Type) {
	for _, a := range sample().Args {
		names, types = append(names, a.Name), append(types, ArgType(a.Arg))
	}
	return names, types
}

// RandomExpression returns an expression of the arguments of Sample. If its numbers are alike, it has one type
// of integer beside constants, as Go demands.
func RandomExpression(r *rand.Rand, alike bool) string {
	numbers := mixed
	if alike {
		one := mixed[r.IntN(8)]
		numbers = []string{one, one, "100", "3", one}
	}
	for {
		src := random(r, numbers, 1+r.IntN(4), r.IntN(2) == 0)
		if _, err := sample().Parse(src); err == nil { // else, for example, a constant overflows
			return src
		}
	}
}

// RandomValues returns values of the arguments. The kernel reads all of the texts.
func RandomValues(r *rand.Rand) []expr.Value {
	v := randomValues(r)
	if len(v[11].Text()) >= value.TextSize {
		v[11] = expr.StringValue("short") // TestCompile has the long ones
	}
	return v[:]
}

// InKernel returns a function that evaluates an expression in the kernel.
func InKernel(t testing.TB) func(src string, v []expr.Value) (bits uint64, fault bool) {
	m := newMachine(t)
	return func(src string, v []expr.Value) (bits uint64, fault bool) {
		e, err := sample().Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		return m.run(e, (*values)(v))
	}
}
