//go:build linux && (amd64 || arm64)

package main

func bpftraceArguments(t *T) {}
func bpftraceString(t *T)    {}
func runChild()              {}
