package tracer

import (
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/descriptor"
	"github.com/go-stapsdt/stapsdt/internal/proc"

	"golang.org/x/sys/unix"
)

// silent is whether the tracer has failed to answer.
var silent atomic.Bool

// Await waits until the tracer has attached to the probes of the providers that the program has
// loaded, for at most Patience. It returns at once if no tracer has started the program, if the
// tracer selects no probe of these providers, if it has ended, or if it failed to answer before.
// Await may be called concurrently.
func Await(providers ...string) {
	path := proc.Getenv(Variable)
	if path == "" || silent.Load() || !isAsked(path, providers) {
		return
	}
	fd, err := descriptor.Socket()
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if unix.Connect(fd, &unix.SockaddrUnix{Name: path}) == nil && !isAnswered(fd) {
		silent.Store(true)
	}
}

// isAnswered waits for the end of a connection, and reports whether it came in time.
func isAnswered(fd int) bool {
	end := time.Now().Add(Patience)
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		left := max(time.Until(end), 0)
		if n, err := unix.Poll(polled, int(left.Milliseconds())); err != unix.EINTR {
			return n > 0
		}
	}
}
