// Command lisp runs a program in a very small language, line by line, whose functions
// tracers can see.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"

	"github.com/go-stapsdt/stapsdt"
)

func main() {
	provider := stapsdt.NewProvider("lisp")
	t := &thread{probes: newProbes(provider), file: "stdin", id: 1, functions: map[string]function{}}
	if err := provider.Load(); err != nil {
		log.Print(err) // the probes stay no-ops
	}
	defer provider.Close()
	fmt.Println("process", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(t.try(in.Text()))
	}
}

// try runs a line, and returns its result or what is wrong with it.
func (t *thread) try(text string) (result any) {
	defer func() {
		if wrong := recover(); wrong != nil {
			result = fmt.Sprint("error: ", wrong)
		}
	}()
	return t.run(text)
}
