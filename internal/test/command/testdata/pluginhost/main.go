// Command pluginhost fires the probes of the plugin that its argument names, as the subject does
// for "fire N" on standard input.
package main

import (
	"fmt"
	"log"
	"os"
	"plugin"

	_ "github.com/go-stapsdt/stapsdt" // what both have must be the same
)

func main() {
	loaded, err := plugin.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	load, err := loaded.Lookup("Load")
	if err != nil {
		log.Fatal(err)
	}
	if err := load.(func() error)(); err != nil {
		log.Fatal(err)
	}
	fire, err := loaded.Lookup("Fire")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	for n := 0; ; {
		if _, err := fmt.Scanf("fire %d\n", &n); err != nil {
			return
		}
		fire.(func(int))(n)
		fmt.Println("ok")
	}
}
