//go:build unix

package main

import (
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
)

// runPlugin runs the plugin of kubectl if the command has its name.
func runPlugin(args []string) (status int, isPlugin bool) {
	if !kube.IsPlugin(args[0]) {
		return 0, false
	}
	verb := func(pods replay.Replicas, args []string) int {
		return executeFor(pods, args, os.Stdout, os.Stderr)
	}
	return kube.Main(args[1:], build(), verb, os.Stdout, os.Stderr), true
}
