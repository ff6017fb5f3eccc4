//go:build !cgo || !stapsdt_nocgo

package site

// mayForkUnrepaired is false: a program without cgo forks only to start another program, and
// in a program with cgo cstapsdt/fork.c repairs the sites of a child.
const mayForkUnrepaired = false
