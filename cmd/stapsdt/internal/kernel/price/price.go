//go:build linux

// Package price measures the cost of an event for the traced program, by the instruction at the
// site: it attaches an empty BPF program to instructions of this process, and executes them.
package price

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/sdt"

	"golang.org/x/sys/unix"
)

// Table maps instructions to the processor time of an event, without the work of its BPF program.
type Table map[bpf.Instruction]time.Duration

// Of returns the price of an instruction. The price of an unknown instruction is the highest one.
func (t Table) Of(i bpf.Instruction) time.Duration {
	if price, known := t[i]; known {
		return price
	}
	var most time.Duration
	for _, price := range t {
		most = max(most, price)
	}
	return most
}

// String returns the prices for people.
func (t Table) String() string {
	var all []string
	for _, i := range slices.Sorted(maps.Keys(t)) {
		all = append(all, fmt.Sprintf("%s %v", i, t[i].Round(10*time.Nanosecond)))
	}
	return strings.Join(all, ", ")
}

// The median of some rounds is the price. The first hits of a site take longer: the kernel prepares
// it. If a round is shorter than a step of the clock, as of a clock of 4 ms, it has more hits.
const (
	warmup   = 20
	rounds   = 9
	hits     = 40
	mostHits = hits << 8
)

// Measure measures the prices on this machine. It takes a tenth of a second.
func Measure(k bpf.Kernel) (Table, error) {
	table, err := measure(k)
	if err != nil {
		return nil, fmt.Errorf("measure the price of a probe: %w", err)
	}
	return table, nil
}

func measure(k bpf.Kernel) (Table, error) {
	nothing, err := k.Nothing()
	if err != nil {
		return nil, err
	}
	prog, err := k.Load("price", nothing)
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	pid := 0
	if k.Multi {
		pid = os.Getpid()
	}
	probed := map[bpf.Instruction]uintptr{}
	for name, address := range sites() {
		offset, err := offsetOf(address)
		if err != nil {
			return nil, err
		}
		site := engine.Site{Site: sdt.Site{Provider: "price", Name: string(name), Offset: offset}}
		links, err := engine.AttachSites(prog, "/proc/self/exe", []engine.Site{site}, pid, k.Multi, 1)
		if errors.Is(err, errNotTraced) { // for example a nop of ten bytes before Linux 7.2
			continue
		}
		defer links.Close()
		if err != nil {
			return nil, err
		}
		probed[name] = address
	}
	return execute(probed), nil
}

// errNotTraced is the kernel's ENOTSUPP: the kernel does not attach to instructions of this kind.
const errNotTraced = unix.Errno(524)

// execute executes each instruction, and returns the processor time that each took.
func execute(functions map[bpf.Instruction]uintptr) Table {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	table := Table{}
	for name, address := range functions {
		call(address, warmup)
		if price := priceOf(func(hits int) { call(address, hits) }, used); price > 0 {
			table[name] = price // without an entry, Of returns the highest price
		}
	}
	return table
}

// priceOf returns the time that a hit takes by a clock, or 0 if the clock stands still.
func priceOf(hit func(hits int), clock func() time.Duration) time.Duration {
	for n := hits; n <= mostHits; n *= 4 {
		var times []time.Duration
		for range rounds {
			start := clock()
			hit(n)
			times = append(times, clock()-start)
		}
		slices.Sort(times)
		if price := times[rounds/2] / time.Duration(n); price > 0 {
			return price
		}
	}
	return 0
}

// used returns the processor time of this thread.
func used() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // it cannot fail
	return time.Duration(t.Nano())
}

// offsetOf returns the offset in its file of the code at an address of this process.
func offsetOf(address uintptr) (uint64, error) {
	all, err := proc.CodeMappings(os.Getpid())
	if err != nil {
		return 0, err
	}
	for _, m := range all {
		if m.Start <= uint64(address) && uint64(address) < m.End {
			return uint64(address) - m.Start + m.Offset, nil
		}
	}
	return 0, errors.New("the code of this process is in no mapping")
}
