//go:build linux

// Package stall keeps a file system that does not answer, such as NFS without its server, from
// stopping the command. A system call that waits for such a file system cannot be interrupted, so
// each call is made by a goroutine of its own, which is abandoned if it takes too long.
package stall

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Err means that a file system does not answer. The operation may succeed later.
var Err = errors.New("its file system does not answer")

// ErrLate is the Err of a call that continues. Its value is delivered when it returns.
var ErrLate error = lateError{}

type lateError struct{}

func (lateError) Error() string { return "the kernel or its file system takes long" }
func (lateError) Unwrap() error { return Err }

// Patience is the time that a file system may take for a call. A file system that takes longer
// gets no other calls until it has answered.
const Patience = time.Second

// ticks is the number of parts into which patience is divided. A part counts when this process sees
// its end. While the process is stopped, or has used up the processor time of its control group,
// the clock goes on and the call may not, but only one part ends.
const ticks = 20

// newTicker returns a channel that delivers a value at an interval, and drops a value
// that was not received.
var newTicker = func(every time.Duration) (c <-chan time.Time, stop func()) {
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// Of is a key of a file system to which a user of the machine has led. If it does not answer, only
// that user's calls wait, and at most maxStalls of an owner's calls hang at once.
type Of struct{ Owner, System any }

// Late returns a key that takes time to find. It is found only while some call hangs.
type Late func() any

// found returns the key that a key stands for.
func found(key any) any {
	if late, ok := key.(Late); ok {
		return late()
	}
	return key
}

// maxStalls bounds the threads that hang for an owner, who can have any number of file systems.
const maxStalls = 4

var (
	mu sync.Mutex
	// stalls counts the calls that hang, by their keys and by their owners.
	stalls = map[any]int{}
	// closers are closed when a call with the same owner or, without an owner, the same key has
	// returned.
	closers = map[any][]io.Closer{}
	count   atomic.Uint64
)

func hangs(key any) bool {
	of, owned := key.(Of)
	return stalls[key] > 0 || owned && stalls[of.Owner] >= maxStalls
}

// add adds n to the number of calls that hang. n is negative for calls that have returned.
func add(key any, n int) {
	keys := []any{key}
	if of, owned := key.(Of); owned {
		keys = append(keys, of.Owner)
	}
	for _, k := range keys {
		if stalls[k] += n; stalls[k] == 0 {
			delete(stalls, k)
		}
	}
}

// nextCloser returns the next closer for the goroutine of a call that has returned. If there is
// none, the call no longer counts.
func nextCloser(key any) io.Closer {
	mu.Lock()
	defer mu.Unlock()
	queue := queueOf(key)
	waiting := closers[queue]
	if len(waiting) == 0 {
		delete(closers, queue)
		add(key, -1)
		return nil
	}
	closers[queue] = waiting[1:]
	return waiting[0]
}

func queueOf(key any) any {
	if of, owned := key.(Of); owned {
		return of.Owner
	}
	return key
}

// Count returns the number of calls that took too long.
func Count() uint64 { return count.Load() }

// Do calls f, which uses a file system, and returns its results. key identifies the file system: a
// device, a path if the device is unknown, an Of, or a Late. The error is Err if there is no
// answer, or if an earlier call still waits for one. If f returns a value later and without an
// error, late is called with it, unless late is nil. f must not write to memory that the caller
// uses.
func Do[T any](key any, f func() (T, error), late func(T)) (T, error) {
	value, err := Within(Patience, key, f, late)
	if err == ErrLate {
		err = Err
	}
	return value, err
}

// Within is Do with a patience of its own. The error is ErrLate if there is no answer to this call.
func Within[T any](patience time.Duration, key any, f func() (T, error), late func(T)) (T, error) {
	var none T
	mu.Lock()
	some := len(stalls) > 0
	mu.Unlock()
	if some {
		key = found(key)
		mu.Lock()
		known := hangs(key)
		mu.Unlock()
		if known {
			return none, Err
		}
	}
	return call(patience, key, f, late)
}

func call[T any](patience time.Duration, key any, f func() (T, error), late func(T)) (T, error) {
	var none T
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := f()
		results <- result{value, err}
	}()
	ticker, stop := newTicker(patience / ticks)
	defer stop()
	for range ticks {
		select {
		case r := <-results:
			return r.value, r.err
		case <-ticker:
		}
	}
	count.Add(1)
	key = found(key)
	mu.Lock()
	add(key, 1)
	mu.Unlock()
	go func() {
		r := <-results
		if r.err == nil && late != nil {
			late(r.value)
		}
		for c := nextCloser(key); c != nil; c = nextCloser(key) {
			_ = c.Close()
		}
	}()
	return none, ErrLate
}

// Close closes a file, and waits for Patience at most. While calls with the key hang, it returns
// Err, and the file is closed after one of them.
func Close(key any, c io.Closer) error {
	mu.Lock()
	known := hangs(key)
	if known {
		closers[queueOf(key)] = append(closers[queueOf(key)], c)
	}
	mu.Unlock()
	if known {
		return Err
	}
	_, err := call(Patience, key, func() (struct{}, error) { return struct{}{}, c.Close() }, nil)
	return err
}

// Stat is os.Stat for a path that can lead to any file system.
func Stat(path string) (os.FileInfo, error) {
	return Do(path, func() (os.FileInfo, error) { return os.Stat(path) }, nil)
}

// Reader reads a file of a file system that may not answer.
type Reader struct {
	io.ReaderAt
	// Key identifies the file system, as for Do.
	Key any
}

// chunk is the number of bytes that are read at once.
const chunk = 64 << 10

// A call may go on after ReadAt has returned, when p belongs to the caller again. It therefore
// reads into a buffer of its own. The buffer of a call that takes too long is lost.
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

// Short reports whether the process, the system or a control group lacks descriptors or memory.
func Short(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// Passes reports whether the operation may succeed later, because there was a shortage, a signal
// has interrupted it, or a file system did not answer. ENOSPC does not pass: the verifier of BPF
// programs returns it if its log is too long, which is a verdict.
func Passes(err error) bool {
	return errors.Is(err, Err) || Short(err) ||
		errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
}
