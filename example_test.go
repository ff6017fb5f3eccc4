package stapsdt_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

// AddProbe defines a probe whose arguments are known only at run time.
func ExampleProvider_AddProbe() {
	p := stapsdt.NewProvider("dynamic")
	probe, err := p.AddProbe("line", stapsdt.String, stapsdt.Uint32)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Load(); err != nil {
		log.Print(err)
	}
	defer p.Close()

	// Any integer that fits will do. The error is nil while no tracer is attached.
	fmt.Println(probe.Fire("main.lua", 17))
	// Output: <nil>
}

// Names follow the probe's name. With them, tracers show what an argument is.
func ExampleNewProbe2() {
	p := stapsdt.NewProvider("names")
	request := stapsdt.NewProbe2[string, time.Duration](p, "request__done", "path", "elapsed")
	fmt.Println(request.Args())
	// Output: [{path string string} {elapsed int64 time.Duration}]
}

// The arguments of a probe from AddProbe have names, too.
func ExampleProbe_NameArgs() {
	p := stapsdt.NewProvider("dynamic_names")
	probe, err := p.AddProbe("line", stapsdt.String, stapsdt.Uint32)
	if err == nil {
		err = probe.NameArgs("file", "number")
	}
	fmt.Println(probe.Args(), err)
	// Output: [{file string string} {number uint32 uint64}] <nil>
}

// The fields of a struct are the arguments.
func ExampleNewProbeOf() {
	type Request struct {
		Path       string
		HTTPStatus int32
		Elapsed    time.Duration `probe:"nanoseconds"`
		RemoteAddr string        `probe:"-"` // not an argument
	}
	p := stapsdt.NewProvider("fields")
	request := stapsdt.NewProbeOf[Request](p, "request__done")
	request.Fire(Request{Path: "/index.html", HTTPStatus: 200, Elapsed: time.Millisecond})
	fmt.Println(request.Args())
	// Output: [{path string string} {http_status int32 int64} {nanoseconds int64 time.Duration}]
}

// FireFunc computes the arguments only while a tracer is attached.
func ExampleProbe2_FireFunc() {
	p := stapsdt.NewProvider("lazy")
	took := stapsdt.NewProbe2[string, time.Duration](p, "took", "weekday", "elapsed")
	start := time.Now()
	took.FireFunc(func() (string, time.Duration) {
		return fmt.Sprintf("%v", start.Weekday()), time.Since(start)
	})
	fmt.Println(took.Enabled())
	// Output: false
}

// Enabled reports whether work that only a tracer sees is worth doing.
func ExampleProbe_Enabled() {
	p := stapsdt.NewProvider("shop")
	sold := stapsdt.NewProbe2[string, int64](p, "item__sold", "item", "left")
	left := func(item string) int64 {
		fmt.Println("count what is left of", item)
		return 12
	}
	for _, item := range []string{"tea", "coffee"} {
		if sold.Enabled() {
			sold.Fire(item, left(item))
		}
	}
	// Output:
}

// Errors wrap what a program may want to decide on.
func ExampleError() {
	p := stapsdt.NewProvider("no spaces, please")
	err := p.Load()
	fmt.Println(errors.Is(err, stapsdt.ErrName))
	var e *stapsdt.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, e.Code)
	}
	// Output:
	// true
	// define noError
}

// An observer needs no tracer, and no Load: a program can count its own events.
func ExampleProvider_Observe() {
	p := stapsdt.NewProvider("shop")
	order := stapsdt.NewProbe2[string, int32](p, "order__placed", "item", "count")
	var sold int64
	stop := p.Observe(func(e *stapsdt.Event) {
		sold += e.ArgByName("count").Int64()
		fmt.Println(e)
	}, &order.Probe)
	order.Fire("tea", 3)
	order.Fire("coffee", 2)
	stop()
	order.Fire("tea", 1) // nothing traces or observes it
	fmt.Println("sold:", sold)
	// Output:
	// shop:order__placed(item="tea", count=3)
	// shop:order__placed(item="coffee", count=2)
	// sold: 5
}

// With a directory of its own, a program depends on no variable of its environment. If Load cannot
// use the directory, it tries no other.
func ExampleWithDir() {
	p := stapsdt.NewProvider("shop", stapsdt.WithDir("/run/shop/probes"))
	order := stapsdt.NewProbe1[string](p, "order__placed", "item")
	err := p.Load()
	if errors.Is(err, stapsdt.ErrPlace) || errors.Is(err, stapsdt.ErrUnsupported) {
		fmt.Println("the probes stay no-ops") // here, /run/shop does not exist
	}
	order.Fire("tea")
	// Output: the probes stay no-ops
}
