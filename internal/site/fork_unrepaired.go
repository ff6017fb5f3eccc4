//go:build cgo && stapsdt_nocgo

package site

// mayForkUnrepaired is true: C code in this program may fork, and the program contains no C
// code of ours that could repair the sites in the child. So the sites get the nop that
// survives a fork unrepaired.
const mayForkUnrepaired = true
