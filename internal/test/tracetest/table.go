//go:build linux

package tracetest

import (
	"regexp"
	"strconv"
	"testing"
)

// Table returns the integers of a map that bpftrace printed, by their keys as it wrote them: "fib, 1": 13 of a map
// named calls, for the line "@calls[fib, 1]: 13". The map of another name is not among them, nor is a key of several
// lines, such as a stack, or a value that is no integer, such as a histogram. A map that was not printed is empty.
func Table(t testing.TB, output, name string) map[string]int {
	t.Helper()
	entries := map[string]int{}
	line := regexp.MustCompile(`(?m)^@` + regexp.QuoteMeta(name) + `\[(.*)\]: (-?\d+)$`)
	for _, m := range line.FindAllStringSubmatch(output, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatalf("@%s[%s]: %v", name, m[1], err)
		}
		entries[m[1]] = n
	}
	return entries
}
