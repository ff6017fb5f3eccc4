//go:build !race

package recorder

// copyShared is copy, from memory to which others write meanwhile.
func copyShared(to, from []byte) int { return copy(to, from) }
