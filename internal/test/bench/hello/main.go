// Command hello is the program whose size scripts/bench.sh compares, with probes
// (the build tag probes) and without, with twenty probes whose arguments have names
// (the tag named) and have none (the tag bare), and with probeenv.Load (the tag env).
package main

import "fmt"

func main() {
	fmt.Println("hello")
	fire()
}
