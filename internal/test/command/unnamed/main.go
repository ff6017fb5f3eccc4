// Command unnamed fires probes whose arguments have no names for each line that it reads: a
// typed one, and one whose types are known only at run time. It prints "ok" when that is done.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

var (
	app     = stapsdt.NewProvider("unnamed")
	request = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__done")
)

func main() {
	dynamic, err := app.AddProbe("dynamic", stapsdt.Int8, stapsdt.String)
	if err == nil {
		err = app.Load()
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		request.Fire(in.Text(), 200, time.Second)
		if err := dynamic.Fire(-1, in.Text()); err != nil {
			log.Fatal(err)
		}
	}
}
