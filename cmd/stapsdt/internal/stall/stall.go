//go:build linux

// Package stall keeps a file system that does not answer, such as that of a network server that is
// gone, from stopping the command. A system call that waits for one cannot be interrupted, so that
// each is made by a goroutine of its own, which is left alone if it takes too long.
package stall

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Err means that a file system does not answer. The same may succeed later.
var Err = errors.New("its file system does not answer")

// Patience is how long a file system may take for a call. One that takes longer is asked nothing else
// until it has answered.
const Patience = time.Second

var (
	mu     sync.Mutex
	stalls = map[any]bool{}
	count  atomic.Uint64
)

// Count returns how often a call took longer than Patience.
func Count() uint64 { return count.Load() }

// Do calls f, which asks a file system, and returns its results. The key is that of the file system: a
// device, or a path if that is unknown. The error is Err if there is no answer, or if an earlier call
// still waits for one. If f returns later nevertheless, late is called with what it has returned,
// unless late is nil. f must not write to what the caller uses.
func Do[T any](key any, f func() (T, error), late func(T)) (T, error) {
	return Within(Patience, key, f, late)
}

// Within is Do for what may take another time than Patience.
func Within[T any](patience time.Duration, key any, f func() (T, error), late func(T)) (T, error) {
	var none T
	mu.Lock()
	known := stalls[key]
	mu.Unlock()
	if known {
		return none, Err
	}
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := f()
		results <- result{value, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-results:
		return r.value, r.err
	case <-timer.C:
	}
	count.Add(1)
	mu.Lock()
	stalls[key] = true
	mu.Unlock()
	go func() {
		r := <-results
		mu.Lock()
		delete(stalls, key)
		mu.Unlock()
		if r.err == nil && late != nil {
			late(r.value)
		}
	}()
	return none, Err
}

// Run is Do for a call that returns an error only.
func Run(key any, f func() error) error {
	_, err := Do(key, func() (struct{}, error) { return struct{}{}, f() }, nil)
	return err
}

// Close closes a file, and waits for Patience at most.
func Close(key any, c io.Closer) error {
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	mu.Lock()
	known := stalls[key]
	mu.Unlock()
	if known {
		return Err
	}
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case err := <-closed:
		return err
	case <-timer.C:
		return Err
	}
}

// Stat returns what a path leads to, as os.Stat does. The path can lead to any file system.
func Stat(path string) (os.FileInfo, error) {
	return Do(path, func() (os.FileInfo, error) { return os.Stat(path) }, nil)
}

// Reader reads a file of a file system that may not answer.
type Reader struct {
	io.ReaderAt
	// Key is that of the file system, as for Do.
	Key any
}

// chunk is how much is read at once.
const chunk = 64 << 10

// A call may go on after ReadAt has returned, when the memory that it was given belongs to the caller
// again, so that it reads into a buffer of its own. That of a call that does not return is lost.
var buffers = sync.Pool{New: func() any { return new([chunk]byte) }}

// ReadAt reads into p, as io.ReaderAt does.
func (r Reader) ReadAt(p []byte, off int64) (n int, err error) {
	for err == nil && n < len(p) {
		var part int
		part, err = r.readChunk(p[n:min(n+chunk, len(p))], off+int64(n))
		n += part
	}
	return n, err
}

func (r Reader) readChunk(p []byte, off int64) (int, error) {
	type result struct {
		n   int
		err error
	}
	buffer := buffers.Get().(*[chunk]byte)
	size := len(p)
	read, err := Do(r.Key, func() (result, error) {
		n, err := r.ReaderAt.ReadAt(buffer[:size], off)
		return result{n, err}, nil
	}, nil)
	if err != nil {
		return 0, err
	}
	defer buffers.Put(buffer)
	return copy(p, buffer[:read.n]), read.err
}
