//go:build linux

// Command subject does something with so many probes: subject SHAPE N.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probeenv"
	"github.com/go-stapsdt/stapsdt/proberec"
)

// shapes are what the program can do. Each returns the providers that are then used.
var shapes = map[string]func(n int) []*stapsdt.Provider{
	"named": func(n int) []*stapsdt.Provider { return one(n, name, "id", "status") },
	"late": func(n int) []*stapsdt.Provider {
		all := one(n, name)
		for _, p := range all[0].Probes() {
			check(p.NameArgs("id", "status"))
		}
		return all
	},
	"sites":      func(n int) []*stapsdt.Provider { return one(n, same, "id", "status") },
	"late-sites": func(n int) []*stapsdt.Provider { return last(one(n, same)) },
	"named-once": func(n int) []*stapsdt.Provider {
		p := stapsdt.NewProvider("scale")
		stapsdt.NewProbe2[int, int32](p, same(0), "id", "status")
		return add(p, n, same)
	},
	"providers": func(n int) (all []*stapsdt.Provider) {
		for i := range n {
			all = append(all, add(stapsdt.NewProvider(fmt.Sprint("scale", i)), 1, name)...)
		}
		return all
	},
	"one-provider": func(n int) (all []*stapsdt.Provider) {
		for range n {
			all = append(all, add(stapsdt.NewProvider("scale"), 1, name, "id", "status")...)
		}
		return all
	},
}

func name(i int) string { return fmt.Sprint("probe", i) }

func same(int) string { return "probe" }

// one returns a provider of n probes.
func one(n int, name func(int) string, names ...string) []*stapsdt.Provider {
	return add(stapsdt.NewProvider("scale"), n, name, names...)
}

func add(p *stapsdt.Provider, n int, name func(int) string, names ...string) []*stapsdt.Provider {
	for i := range n {
		stapsdt.NewProbe2[int, int32](p, name(i), names...)
	}
	return []*stapsdt.Provider{p}
}

// last names the arguments of the last probe.
func last(all []*stapsdt.Provider) []*stapsdt.Provider {
	probes := all[0].Probes()
	check(probes[len(probes)-1].NameArgs("id", "status"))
	return all
}

func main() {
	log.SetFlags(0)
	n, err := strconv.Atoi(os.Args[2])
	check(err)
	all := shapes[os.Args[1]](n)
	use(all)
	if len(os.Args) > 3 { // until the test has seen the probes
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	for _, p := range all {
		check(p.Unload())
		check(p.Load())
		check(p.Close())
	}
}

// use loads the providers, observes and records all of their probes, and fires each.
func use(all []*stapsdt.Provider) {
	check(probeenv.Load())
	r := proberec.New(1 << 20)
	r.Start()
	for _, p := range all {
		stop := p.Observe(func(*stapsdt.Event) {}, p.Probes()...)
		for _, probe := range p.Probes() {
			check(probe.Fire(1, int32(2)))
		}
		stop()
	}
	check(r.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
