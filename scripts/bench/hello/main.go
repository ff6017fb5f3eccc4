// Command hello is the program whose size scripts/bench.sh compares, with probes
// (the build tag probes) and without.
package main

import "fmt"

func main() {
	fmt.Println("hello")
	fire()
}
