// Command hello is the program whose size scripts/bench.sh compares, with probes
// (the build tag probes) and without, and with twenty probes whose arguments have names
// (the tag named) and have none (the tag bare).
package main

import "fmt"

func main() {
	fmt.Println("hello")
	fire()
}
