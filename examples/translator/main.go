// Command translator passes a struct to a tracer: what DTrace calls a translator.
// The struct has a layout of its own, made for the tracer, which stays as it is
// when the Go type behind it changes; and it is filled only while somebody looks.
//
// Run it, and beside it:
//
//	bpftrace -p $(pgrep translator) examples/translator/requests.bt
package main

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
)

var (
	app     = stapsdt.NewProvider("translator")
	request = stapsdt.NewProbe1[unsafe.Pointer](app, "request__done")
)

// Request is what the program works with. Its members are nobody else's business.
type Request struct {
	method, path string
	started      time.Time
	status       int
}

// requestInfo is what a tracer sees of a Request: requests.bt has the same
// struct. Members of a fixed size, the widest first, have the same layout in Go
// and in C.
type requestInfo struct {
	nanoseconds uint64
	status      uint32
	method      [8]byte
	path        [52]byte
}

// done reports a request that was answered.
func (r *Request) done() {
	request.FireFunc(func() unsafe.Pointer {
		info := &requestInfo{
			nanoseconds: uint64(time.Since(r.started)),
			status:      uint32(r.status),
		}
		copy(info.method[:len(info.method)-1], r.method)
		copy(info.path[:len(info.path)-1], r.path)
		// SAFETY: the probe keeps what it points to alive until the tracer
		// has seen it.
		return unsafe.Pointer(info)
	})
}

func main() {
	if err := app.Load(); err != nil {
		fmt.Println(err)
	}
	defer app.Close()
	fmt.Println("serving")
	for i := 0; ; i++ {
		r := &Request{method: "GET", path: fmt.Sprintf("/item/%d", i), started: time.Now(), status: 200 + i%2*204}
		time.Sleep(100 * time.Millisecond)
		r.done()
	}
}
