package stapsdt_test

import (
	"fmt"
	"log"

	"github.com/go-stapsdt/stapsdt"
)

var (
	app     = stapsdt.NewProvider("myapp")
	request = stapsdt.NewProbe2[string, int32](app, "request__done", "path", "status")
)

// Probes can be package variables. Load reports a definition that is invalid.
func Example() {
	if err := app.Load(); err != nil {
		log.Print(err) // the probes stay no-ops
	}
	defer app.Close()

	request.Fire("/index.html", 200)
	fmt.Println(request)
	// Output: myapp:request__done
}
