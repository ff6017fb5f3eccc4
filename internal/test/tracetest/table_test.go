//go:build linux

package tracetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	const output = `text @calls[no]: 1
@calls[fib]: 41
@calls[<main chunk>, 1]: -2
@calls[a[0]: 3]: 4
@callsOf[fib]: 5
@calls[fib, hist]:
[1]                    3 |@@@|
@calls: 6
@microseconds[GET, /]: 7 ms
@[fib]: 8
`
	require.Equal(t, map[string]int{"fib": 41, "<main chunk>, 1": -2, "a[0]: 3": 4}, Table(t, output, "calls"))
	require.Equal(t, map[string]int{"fib": 8}, Table(t, output, ""))
	require.Empty(t, Table(t, output, "call."))
	require.Empty(t, Table(t, output, "microseconds"))

	f := try(func(t testing.TB) { Table(t, "@a[big]: 99999999999999999999", "a") })
	require.True(t, f.failed)
	require.Contains(t, f.log.String(), "@a[big]")
}

// TestTableOfBpftrace reads what bpftrace does print.
func TestTableOfBpftrace(t *testing.T) {
	out := Bpftrace(t, `BEGIN { @n["a b", 1] = 2; @n["c]: 3", -1] = -4; @m[5] = 6; }`).Stop()
	require.Equal(t, map[string]int{"a b, 1": 2, "c]: 3, -1": -4}, Table(t, out, "n"))
	require.Equal(t, map[string]int{"5": 6}, Table(t, out, "m"))
}
