package stapsdt_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"time"

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
	fmt.Println(probe.Fire("main.lua", 17), probe.ArgTypes())
	// Output: <nil> [string uint32]
}

// Names follow the probe's name. With them, tracers show what an argument is.
func ExampleNewProbe2() {
	p := stapsdt.NewProvider("names")
	request := stapsdt.NewProbe2[string, time.Duration](p, "request__done", "path", "elapsed")
	fmt.Println(request.ArgNames(), request.ArgTypes())
	// Output: [path elapsed] [string int64]
}

// The arguments of a probe from AddProbe have names, too.
func ExampleProbe_NameArgs() {
	p := stapsdt.NewProvider("dynamic_names")
	probe, err := p.AddProbe("line", stapsdt.String, stapsdt.Uint32)
	if err == nil {
		err = probe.NameArgs("file", "number")
	}
	fmt.Println(probe.ArgNames(), err)
	// Output: [file number] <nil>
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
	fmt.Println(request.ArgNames(), request.ArgTypes())
	// Output: [path http_status nanoseconds] [string int32 int64]
}

// FireFunc computes the arguments only while a tracer is attached.
func ExampleProbe2_FireFunc() {
	p := stapsdt.NewProvider("lazy")
	took := stapsdt.NewProbe2[string, time.Duration](p, "took", "weekday", "elapsed")
	start := time.Now()
	took.FireFunc(func() (string, time.Duration) {
		return fmt.Sprintf("%v", start.Weekday()), time.Since(start)
	})
	fmt.Println(took.ArgTypes())
	// Output: [string int64]
}

// Enabled reports whether work that only a tracer sees is worth doing.
func ExampleProbe_Enabled() {
	if request.Enabled() {
		fmt.Println("a tracer is attached")
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

// A provider writes the bpftrace program that prints its events. Write it to a file,
// and run bpftrace -p PID FILE.
func ExampleProvider_WriteScript() {
	app := stapsdt.NewProvider("myapp")
	stapsdt.NewProbe2[string, int32](app, "request__done")
	stapsdt.NewProbe1[string](app, "reload", "file")
	app.WriteScript(os.Stdout)
	// Output:
	// // Prints the events of myapp in a process. Run it as root:
	// //
	// //	bpftrace -p PID FILE
	//
	// usdt:*:myapp:request__done
	// {
	// 	printf("myapp:request__done(\"%s\", %ld)\n", str(arg0), arg1);
	// }
	//
	// usdt:*:myapp:reload
	// {
	// 	printf("myapp:reload file=\"%s\"\n", str(arg0));
	// }
}
