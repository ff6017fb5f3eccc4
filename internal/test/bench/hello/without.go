//go:build !probes && !bare && !named

package main

func fire() {}
