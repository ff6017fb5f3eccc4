// Command stacker fires a probe from stacks that it knows. It does what it is told on standard
// input, and prints "ok" when that is done:
//
//	call N       fires from functions of which one is inlined
//	spawn N      fires N times in a goroutine of its own
//	deep N       fires from N functions deep
//	stack        prints the functions of call, as the runtime sees them, the innermost first
//	quit N       fires once from functions, and exits
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/go-stapsdt/stapsdt"
)

var (
	stacker = stapsdt.NewProvider("stacker")
	hit     = stapsdt.NewProbe1[int](stacker, "hit")
)

func main() {
	if err := stacker.Load(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		var word string
		var n int
		fmt.Sscan(in.Text(), &word, &n)
		switch word {
		case "call":
			for i := range n {
				outer(i, false)
			}
		case "spawn":
			done := make(chan bool)
			go func() {
				for i := range n {
					hit.Fire(i)
				}
				close(done)
			}()
			<-done
		case "deep":
			deep(n)
		case "stack":
			outer(0, true)
		case "quit":
			outer(0, false)
			return
		default:
			log.Fatalf("%q is no command", in.Text())
		}
	}
}

//go:noinline
func outer(n int, show bool) { inlined(n, show) }

func inlined(n int, show bool) { inner(n, show) }

//go:noinline
func inner(n int, show bool) {
	if show {
		printStack()
	} else {
		hit.Fire(n)
	}
}

//go:noinline
func deep(n int) int {
	if n == 0 {
		hit.Fire(n)
		return 0
	}
	return deep(n-1) + 1
}

func printStack() {
	pcs := make([]uintptr, 64)
	var all []string
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		all = append(all, fmt.Sprintf("%s (%s:%d)", f.Function, path.Base(f.File), f.Line))
		if !more {
			break
		}
	}
	fmt.Println("stack " + strings.Join(all, ";"))
}
