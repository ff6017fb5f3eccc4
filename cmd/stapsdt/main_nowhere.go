//go:build !unix

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "stapsdt: probes are traced by the kernel of Linux, and this is another system")
	os.Exit(1)
}
