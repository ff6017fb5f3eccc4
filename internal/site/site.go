// Package site chooses the kind of site that the running kernel traces best.
// The rule is DESIGN's, and cstapsdt/site.c follows it too.
package site

import "sync"

var chosen struct {
	once sync.Once
	name string
}

// Chosen returns the name of the kind of site for this process, by the names
// of cstapsdt/arch.def, or "" on a system that has none. It asks the kernel once.
func Chosen() string {
	chosen.once.Do(func() { chosen.name = choose() })
	return chosen.name
}
