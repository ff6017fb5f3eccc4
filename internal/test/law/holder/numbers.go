//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// numbers are what the program takes of the machine.
type numbers struct {
	Threads     int    `json:"threads"`
	Goroutines  int    `json:"goroutines"`
	Descriptors int    `json:"descriptors"`
	Heap        uint64 `json:"heap"`   // bytes that are in use
	Stacks      uint64 `json:"stacks"` // bytes of the goroutines' stacks
}

func measure() (n numbers, err error) {
	// What a finalizer or a sync.Pool refers to is free after the next collection only, and
	// cleanups run in between.
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	n.Heap, n.Stacks, n.Goroutines = m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return n, err
	}
	_, threads, _ := strings.Cut(string(status), "\nThreads:")
	if _, err := fmt.Sscan(threads, &n.Threads); err != nil {
		return n, err
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	n.Descriptors = len(descriptors)
	return n, err
}
