//go:build unix

package main

import (
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube"
)

// runPlugin runs the plugin of kubectl if the command has its name.
func runPlugin(args []string) (status int, isPlugin bool) {
	if !kube.IsPlugin(args[0]) {
		return 0, false
	}
	return kube.Main(args[1:], build(), os.Stdout, os.Stderr), true
}
