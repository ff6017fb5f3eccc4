//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"

	"golang.org/x/sys/unix"
)

// define defines a provider of n probes, each with two arguments. The garbage of
// the many that came before is collected first: that is not part of what is timed.
func define(n int) *stapsdt.Provider {
	if n >= 1000 {
		runtime.GC()
	}
	p := stapsdt.NewProvider("benchload")
	for i := range n {
		_, err := p.AddProbe(fmt.Sprintf("probe%06d", i), stapsdt.Uint64, stapsdt.Int32)
		check(err)
	}
	return p
}

// definition is how the probes of a provider are defined, without a load: whether all are sites of one name, and whether
// their arguments are named, at once or afterwards.
type definition struct{ oneName, named, late bool }

func (d definition) measure(n int) int64 {
	var names []string
	if d.named {
		names = []string{"id", "status"}
	}
	runtime.GC()
	return timed(func(n int) {
		p := stapsdt.NewProvider("benchdefine")
		for i := range n {
			name := "probe"
			if !d.oneName {
				name = fmt.Sprintf("probe%06d", i)
			}
			probe := stapsdt.NewProbe2[uint64, int32](p, name, names...)
			if d.late && (!d.oneName || i == n-1) {
				check(probe.NameArgs("id", "status"))
			}
		}
		check(p.Close())
	})(n)
}

// remove closes a provider and removes its file.
func remove(p *stapsdt.Provider) {
	path := p.Path()
	check(p.Close())
	check(os.Remove(path))
}

func timedLoad(p *stapsdt.Provider) int64 {
	return timed(func(int) { check(p.Load()) })(1)
}

// loadNew loads n probes that no file has yet.
func loadNew(n int) int64 {
	p := define(n)
	defer remove(p)
	return timedLoad(p)
}

// loadExisting loads n probes whose file another provider has written, in this
// process or in another.
func loadExisting(n int) int64 {
	first := define(n)
	check(first.Load())
	defer remove(first)
	p := define(n)
	took := timedLoad(p)
	check(p.Close())
	return took
}

func unload(n int) int64 {
	p := define(n)
	check(p.Load())
	path := p.Path()
	took := timed(func(int) { check(p.Unload()) })(1)
	check(p.Close())
	check(os.Remove(path))
	return took
}

// reload unloads n probes and loads them again.
func reload(n int) int64 {
	p := define(n)
	check(p.Load())
	defer remove(p)
	return timed(func(int) { check(p.Unload()); check(p.Load()) })(1)
}

// mapped is how many bytes of this process's addresses n loaded probes take.
func mapped(n int) int64 {
	p := define(n)
	check(p.Load())
	defer remove(p)
	maps, err := os.Open("/proc/self/maps")
	check(err)
	defer maps.Close()
	total := int64(0)
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if !strings.HasSuffix(lines.Text(), " "+p.Path()) {
			continue
		}
		var start, end int64
		_, err := fmt.Sscanf(lines.Text(), "%x-%x", &start, &end)
		check(err)
		total += end - start
	}
	return total
}

// fileSize is how many bytes the file of n probes has.
func fileSize(n int) int64 {
	p := define(n)
	check(p.Load())
	defer remove(p)
	info, err := os.Stat(p.Path())
	check(err)
	return info.Size()
}

// record is what STAPSDT_RECORD takes of the start of a program, for a file of n MiB.
func record(n int) int64 {
	path := filepath.Join(os.Getenv("STAPSDT_DIR"), "start.rec")
	var r *proberec.Recorder
	took := timed(func(n int) {
		var err error
		r, err = proberec.Create(path, int64(n)<<20, bench)
		check(err)
		r.Start()
	})(n)
	check(r.Close())
	check(os.Remove(path))
	return took
}

// fallocate is the part of it that reserves the space.
func fallocate(n int) int64 {
	f, err := os.CreateTemp(os.Getenv("STAPSDT_DIR"), "")
	check(err)
	defer f.Close()
	check(os.Remove(f.Name()))
	return timed(func(n int) { check(unix.Fallocate(int(f.Fd()), 0, 0, int64(n)<<20)) })(n)
}
