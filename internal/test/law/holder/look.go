//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
)

// looks are what the program's code saw of the values that it got, when nothing watched.
var looks sync.Map

// look returns an error if a value at a place has another type than when nothing watched, and so perhaps other methods.
// Where docs/instrumentation.md says that the type differs, only is which interfaces must not.
func look(place string, v any, only ...reflect.Type) error {
	var seen any = reflect.TypeOf(v)
	if len(only) > 0 {
		var has []reflect.Type
		for _, i := range only {
			if reflect.TypeOf(v).Implements(i) {
				has = append(has, i)
			}
		}
		seen = fmt.Sprint(has)
	}
	first, _ := looks.LoadOrStore(place, seen)
	if first != seen {
		return fmt.Errorf("%s is %v instead of %v", place, seen, first)
	}
	return nil
}

// afterFunc is the optional interface of contexts.
var afterFunc = reflect.TypeFor[interface {
	AfterFunc(f func()) (stop func() bool)
}]()

// The optional interfaces of a ResponseWriter and of the body of a response.
var (
	writers = []reflect.Type{
		reflect.TypeFor[http.Flusher](), reflect.TypeFor[interface{ FlushError() error }](), reflect.TypeFor[http.Hijacker](),
		reflect.TypeFor[interface{ CloseNotify() <-chan bool }](), reflect.TypeFor[http.Pusher](), reflect.TypeFor[io.ReaderFrom](), reflect.TypeFor[io.StringWriter](),
	}
	bodies = []reflect.Type{reflect.TypeFor[io.WriterTo](), reflect.TypeFor[io.Writer](), reflect.TypeFor[io.Seeker](), reflect.TypeFor[io.ByteReader]()}
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
