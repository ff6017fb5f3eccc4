package main

import "os"

func main() {
	if status, isPlugin := runPlugin(os.Args); isPlugin {
		os.Exit(status)
	}
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}
