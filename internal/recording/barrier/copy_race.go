//go:build race

package barrier

// Copy is copy, from memory to which others write meanwhile: a reader of a recording notices that. The
// race detector must not report it, and sees the built-in copy in every function.
//
//go:norace
func Copy(to, from []byte) int {
	n := min(len(to), len(from))
	for i := range n {
		to[i] = from[i]
	}
	return n
}
