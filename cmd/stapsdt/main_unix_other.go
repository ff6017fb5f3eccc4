//go:build unix && !linux

package main

import (
	"fmt"
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube"
)

func main() {
	if kube.IsPlugin(os.Args[0]) {
		os.Exit(kube.Main(os.Args[1:], "", os.Stdout, os.Stderr))
	}
	fmt.Fprintf(os.Stderr, "stapsdt: probes are traced by the kernel of Linux, and this is another system; named %s, it asks pods\n", kube.Name)
	os.Exit(1)
}
