// Command lua runs Lua programs, whose functions tracers can see.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/examples/lua/luaprobe"
)

func main() {
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), "usage: lua FILE") }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	provider := stapsdt.NewProvider("lua")
	probes := luaprobe.New(provider)
	if err := provider.Load(); err != nil {
		log.Print(err) // the probes stay no-ops
	}
	defer provider.Close()

	source, err := os.ReadFile(flag.Arg(0))
	if err == nil {
		err = interpret(probes, flag.Arg(0), source)
	}
	if err != nil {
		log.Fatal(err)
	}
}
