//go:build linux

package main

// last is the last result of lined.
var last int

// lined has a statement in its middle that the kernel single-steps: line 14, which scripts/bench.sh traces.
//
//go:noinline
func lined(n int) int {
	sum := other(n)
	use(sum)
	last = sum
	return sum + 1
}

//go:noinline
func use(int) {}
