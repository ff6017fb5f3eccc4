//go:build !amd64 && !arm64

package site

// Idle stands for a site where there are none.
const Idle = 0

// No byte is a tracer's.
const Mask, Bits = 0, 1
