// Command publish fills a directory with every module of this repository, as a GOPROXY of files:
//
//	publish CHECKOUT DIRECTORY
package main

import (
	"fmt"
	"os"

	"github.com/go-stapsdt/stapsdt/internal/test/proxy"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: publish CHECKOUT DIRECTORY")
		os.Exit(2)
	}
	if err := proxy.Publish(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}
