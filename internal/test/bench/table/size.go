//go:build linux

package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Keys of what a static hello gains by probes, in KB of 1000 bytes.
const (
	addedStripped   = "hello stripped"
	addedUnstripped = "hello unstripped"
	addedLoaded     = "hello loaded"
	addedNames      = "hello names"      // by the names of twenty probes, stripped
	addedInit       = "hello init"       // packages with init work
	addedInitAllocs = "hello initallocs" // what that allocates
)

// measureHello compares the hello that has probes with the one that has none.
func (r results) measureHello() error {
	for key, program := range map[string]string{addedStripped: "hello-stripped", addedUnstripped: "hello"} {
		if err := r.added(key, program, fileBytes); err != nil {
			return err
		}
	}
	if err := r.added(addedLoaded, "hello", loadedBytes); err != nil {
		return err
	}
	if err := r.grown(addedNames, "hello-stripped-bare", "hello-stripped-named", sectionBytes); err != nil {
		return err
	}
	return r.measureInit()
}

// added measures how much larger a program is with probes.
func (r results) added(key, program string, size func(path string) (float64, error)) error {
	return r.grown(key, program, program+"-probes", size)
}

// grown measures how much larger the second program is than the first.
func (r results) grown(key, first, second string, size func(path string) (float64, error)) error {
	without, err := size(filepath.Join(*work, first))
	if err != nil {
		return err
	}
	with, err := size(filepath.Join(*work, second))
	if err != nil {
		return err
	}
	r[key] = []float64{(with - without) / 1000}
	return nil
}

func fileBytes(path string) (float64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()), nil
}

// sectionBytes is how much a program's file holds without what aligns its segments, which
// adds anything up to two pages and hides a small difference, or doubles it.
func sectionBytes(path string) (float64, error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	total := uint64(0)
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS {
			total += s.FileSize
		}
	}
	return float64(total), nil
}

// loadedBytes is how much of a program is mapped when it runs.
func loadedBytes(path string) (float64, error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	total := uint64(0)
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			total += p.Memsz
		}
	}
	return float64(total), nil
}

// initLine is what the runtime prints, with GODEBUG=inittrace=1, for each package
// that has something to do before main.
var initLine = regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) allocs$`)

// measureInit counts the packages of this module that run code before main in
// the hello with probes, and what all that are not in the one without allocate.
func (r results) measureInit() error {
	without, err := initWork("hello")
	if err != nil {
		return err
	}
	with, err := initWork("hello-probes")
	if err != nil {
		return err
	}
	if len(without) == 0 {
		return fmt.Errorf("GODEBUG=inittrace=1 tells nothing")
	}
	packages, allocs := 0.0, 0.0
	for name, n := range with {
		if _, both := without[name]; !both {
			fmt.Fprintf(os.Stderr, "init work: %s, %v allocations\n", name, n)
			if strings.HasPrefix(name, "github.com/go-stapsdt/") {
				packages++
			}
			allocs += n
		}
	}
	r[addedInit], r[addedInitAllocs] = []float64{packages}, []float64{allocs}
	return nil
}

// initWork returns the packages that run code before main, and how often each
// allocates.
func initWork(program string) (map[string]float64, error) {
	cmd := exec.Command(filepath.Join(*work, program))
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	packages := map[string]float64{}
	for _, m := range initLine.FindAllStringSubmatch(string(out), -1) {
		if packages[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			return nil, err
		}
	}
	return packages, nil
}
