package main

import (
	"bufio"
	"fmt"
	"log"
	"os"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probeenv"
)

// obey prints "ready", and does what the lines of standard input say, as the program of internal/test/clibrary does:
//
//	fire N     fires N events of the other probe, and prints "done"
//	take N     takes N MB, and prints "done"
//	enabled    prints "enabled 1" if a tracer watches the probe, or "enabled 0"
func obey() {
	asked := stapsdt.NewProbe1[int](stapsdt.NewProvider("worker"), "asked", "number")
	if err := probeenv.Load(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var name string
		var n int
		fmt.Sscan(in.Text(), &name, &n)
		switch name {
		case "fire":
			for i := range n {
				asked.Fire(i)
			}
			fmt.Println("done")
		case "take":
			take(n)
			fmt.Println("done")
		case "enabled":
			fmt.Println("enabled", map[bool]int{true: 1}[asked.Enabled()])
		default:
			log.Fatalf("%q is not an order", in.Text())
		}
	}
}

// taken is the memory that this process has taken.
var taken [][]byte

// take takes megabytes of memory, and keeps them.
func take(megabytes int) {
	for range megabytes {
		part := make([]byte, 1<<20)
		for i := range part {
			part[i] = 1
		}
		taken = append(taken, part)
	}
}
