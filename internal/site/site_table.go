//go:build !(linux && amd64)

package site

import "github.com/go-stapsdt/stapsdt/internal/image"

// choose returns the first nop, to which every kernel can attach. Only amd64 has others.
func choose() string { return image.Host().Nops[0].Name }
