// Package site chooses the nop that the running kernel traces at the lowest cost.
// cstapsdt/nop.c follows the same rule.
package site

import (
	"sync"

	"github.com/go-stapsdt/stapsdt/internal/image"
)

var choice struct {
	once sync.Once
	nop  *image.Nop
}

// Chosen returns the nop that costs least while this kernel traces it, or nil on a system
// without nops. It tests the kernel only once.
func Chosen() *image.Nop {
	choice.once.Do(func() {
		if host := image.Host(); host != nil {
			choice.nop = host.NopByName(choose())
		}
	})
	return choice.nop
}
