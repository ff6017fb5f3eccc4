//go:build !probes

package main

func fire() {}
