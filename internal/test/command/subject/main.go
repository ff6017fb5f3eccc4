// Command subject has the probes of a program that its first argument names, prints "ready", does what it is told on standard input, and
// prints "ok" when a line is done.
//
//	subject [memfd]                     whose image is in memory if it says so
//	subject unnamed                     whose arguments have no names
//	subject operator [FILE]             operations, which it records to a file
//	subject worker                      jobs
//	subject exportee PROVIDER [TIMES]   what is exported; with TIMES it fires that often, and ends
//
// The commands of each are in its file.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

// order is what follows the name of a command: a text, or up to two numbers.
type order struct {
	text string
	n, m int
}

type commands map[string]func(order)

// loop obeys standard input.
func (c commands) loop() {
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		name, text, _ := strings.Cut(in.Text(), " ")
		if c[name] == nil {
			log.Fatalf("%q is no command", in.Text())
		}
		o := order{text: text}
		fmt.Sscan(text, &o.n, &o.m)
		c[name](o)
	}
}

func main() {
	args := append(os.Args[1:], "", "", "")
	switch args[0] {
	case "unnamed":
		unnamed()
	case "operator":
		operator(args[1])
	case "worker":
		worker()
	case "exportee":
		exportee(args[1], args[2])
	default:
		subject(args[0] == "memfd")
	}
}

// unnamed fires a typed probe, and one whose types are known only at run time:
//
//	fire TEXT
func unnamed() {
	app := stapsdt.NewProvider("unnamed")
	request := stapsdt.NewProbe3[string, int32, time.Duration](app, "request__done")
	dynamic, err := app.AddProbe("dynamic", stapsdt.Int8, stapsdt.String)
	check(err)
	check(app.Load())
	commands{"fire": func(o order) {
		request.Fire(o.text, 200, time.Second)
		check(dynamic.Fire(-1, o.text))
	}}.loop()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
