package stapsdt_test

import (
	"fmt"
	"log"

	"github.com/go-stapsdt/stapsdt"
)

// A library defines its probes as package variables, and never loads them.
var (
	library = stapsdt.NewProvider("mylibrary")
	lookup  = stapsdt.NewProbe2[string, bool](library, "cache__lookup", "key", "found")
)

// Lookup is a function of the library.
func Lookup(key string) (found bool) {
	lookup.Fire(key, found)
	return found
}

// The program's main loads the probes of all the libraries that it uses.
func ExampleLoadAll() {
	if err := stapsdt.LoadAll(); err != nil {
		log.Print(err) // the probes of these providers stay no-ops
	}
	fmt.Println(Lookup("tea"))
	// Output: false
}
