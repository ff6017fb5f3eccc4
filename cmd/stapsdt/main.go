//go:build linux

package main

import (
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube"
)

func main() {
	if kube.IsPlugin(os.Args[0]) {
		os.Exit(kube.Main(os.Args[1:], build(), os.Stdout, os.Stderr))
	}
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}
