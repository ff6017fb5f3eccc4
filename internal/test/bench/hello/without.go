//go:build !probes && !bare && !named && !env

package main

func fire() {}
