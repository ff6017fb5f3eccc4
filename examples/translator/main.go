// Command translator passes a struct to a tracer, which DTrace calls a translator. The
// struct is made for the tracer, so that scripts do not depend on the type that the program
// works with. The program fills the struct only while a tracer is attached.
//
// The README has the commands to run and trace it.
package main

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

var (
	app     = stapsdt.NewProvider("translator")
	request = stapsdt.NewProbeOf[requestDone](app, "request__done")
)

// Request is the type that the program works with. Its fields may change freely.
type Request struct {
	method, path string
	started      time.Time
	status       int
}

// requestDone has the probe's arguments: one, with the name info.
type requestDone struct{ Info *requestInfo }

// requestInfo is the struct that a tracer sees for a Request. The file of the probes
// describes it, so a script reads the fields by their names, wherever they are.
type requestInfo struct {
	Method, Path string
	Status       int32
	Elapsed      time.Duration
}

// done reports that a request was answered.
func (r *Request) done() {
	request.FireFunc(func() requestDone {
		return requestDone{&requestInfo{
			Method:  r.method,
			Path:    r.path,
			Status:  int32(r.status),
			Elapsed: time.Since(r.started),
		}}
	})
}

func main() {
	if err := app.Load(); err != nil {
		fmt.Println(err)
	}
	defer app.Close()
	fmt.Println("the probes are in", app.Path())
	for i := 0; ; i++ {
		r := &Request{method: "GET", path: fmt.Sprintf("/item/%d", i), started: time.Now(), status: 200 + i%2*204}
		time.Sleep(100 * time.Millisecond)
		r.done()
	}
}
