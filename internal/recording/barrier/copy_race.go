//go:build race

package barrier

// Copy is copy from memory that others may write at the same time: a reader of a recording detects
// this. The race detector must not report it, but sees the built-in copy even in functions without
// race detection.
//
//go:norace
func Copy(to, from []byte) int {
	n := min(len(to), len(from))
	for i := range n {
		to[i] = from[i]
	}
	return n
}
