// Command subject is the Go program that is traced: it fires the probes of package fired every ten milliseconds, until
// its standard input is closed.
//
//	subject [-memfd] PROVIDER
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/tracers/fired"
)

var memfd = flag.Bool("memfd", false, "keep the image in memory")

func main() {
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: subject [-memfd] PROVIDER")
	}
	if err := run(flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func run(name string) error {
	var opts []stapsdt.Option
	if *memfd {
		opts = append(opts, stapsdt.WithMemfd())
	}
	provider := stapsdt.NewProvider(name, opts...)
	list := []fired.Probe{fired.Pair, fired.Wide}
	var probes []*stapsdt.Probe
	for _, f := range list {
		p, err := provider.AddProbe(f.Name, f.Types...)
		if err != nil {
			return err
		}
		probes = append(probes, p)
	}
	if err := provider.Load(); err != nil {
		return err
	}
	defer provider.Close()
	fmt.Printf("loaded as %s;\n", provider.Path())

	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	for n := uint64(1); ; n++ {
		select {
		case <-over:
			return nil
		case <-tick.C:
		}
		for i, p := range probes {
			if err := fire(p, list[i].Values(n)); err != nil {
				return err
			}
		}
	}
}

// fire is what a stack trace must name.
//
//go:noinline
func fire(p *stapsdt.Probe, values []any) error {
	return p.Fire(values...)
}
