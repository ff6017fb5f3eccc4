// Package probesock lets other processes of the same user watch a program's probes: without root,
// without the kernel's tracing, and for less than a reading of the clock for each event.
//
//	listener, err := probesock.Listen()
//	if err != nil {
//		log.Print(err) // the program continues, but cannot be watched this way
//	}
//	defer listener.Close() // it may be nil
//
// From then on, stapsdt trace -p PID and the other commands work as the user of the program: in a
// restricted container, under seccomp and in gVisor. docs/without-root.md is a guide. All providers
// of the process can be watched, including those that are defined later, whether they are loaded or
// not.
//
// Nothing is recorded until a watcher connects. The program then writes the events of the selected
// probes to memory that the watcher has mapped too. This adds no system call and no allocation to a
// fire, and a fire waits for no watcher. A watcher that reads too slowly loses the oldest events,
// and knows how many it has lost. docs/protocol.md describes the messages that both sides exchange.
//
// # What a watcher can see
//
// A watcher sees the arguments of the probes that it selects, which may be confidential. The socket
// admits only processes of the program's own user and of root. Such a process could also attach a
// debugger, unless the system forbids that (Yama's ptrace_scope). Watching is therefore opt-in: a
// program has to call Listen. SECURITY.md states the promises.
//
// # What it costs
//
// Listen itself takes one goroutine and one descriptor. At most 8 watchers are admitted at a time.
// Each uses at most 64 MiB of memory, all of them together at most 128 MiB, and never more than a
// 16th of the memory that the control group has left.
package probesock

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

// Listener is an open socket, and serves the processes that watch the probes of this process
// through it. Its methods are safe for concurrent use. The zero Listener and a nil one are
// closed.
type Listener struct{ *listener }

// Path returns the path of the socket, even after Close, or "" if there never was one.
func (l *Listener) Path() string {
	if l.zero() {
		return ""
	}
	return l.path
}

// Watchers returns the number of processes that are watching at present.
func (l *Listener) Watchers() int {
	if l.zero() {
		return 0
	}
	return l.watching()
}

// Close closes the socket, removes its file, and ends all watches. It returns the error of closing
// the socket, and nil if it is called again.
func (l *Listener) Close() error {
	if l.zero() {
		return nil
	}
	return l.close()
}

func (l *Listener) zero() bool { return l == nil || l.listener == nil }

// Listen opens a socket through which processes of the same user and of root can watch the probes
// of this process until the Listener is closed.
//
// The socket is in the directory in which images are kept: $STAPSDT_DIR, or stapsdt in
// $XDG_RUNTIME_DIR, or stapsdt-UID in $TMPDIR or /tmp. Listen fails if none of them can be used, if
// the process already listens, if there is no /proc, by which watchers find the process, and with
// [stapsdt.ErrUnsupported] on systems other than Linux. It then returns a nil Listener, with which
// a program can continue. If [FromEnvironment] has opened the socket, Listen takes it over: closing
// either Listener closes the socket.
func Listen() (*Listener, error) {
	l, err := listen(true)
	if err != nil {
		return nil, fmt.Errorf("probesock: listen: %w", err)
	}
	return &Listener{l}, nil
}

// FromEnvironment listens as [Listen] does if the environment variable STAPSDT_SOCKET is 1, until
// the process ends or the Listener is closed. It fails if the variable has a value other than 0 and
// 1, or as Listen does.
//
// FromEnvironment returns nil, and no error, if the variable is 0, empty or not set, if the program
// has called Listen before, or if it gained rights when it was started, as a set-user-ID program
// does. Otherwise, it returns the same socket each time, even after Close, which is final. Package
// probeenv calls FromEnvironment. Call it yourself in a program that must not contain package
// proberec.
func FromEnvironment() (*Listener, error) {
	asked, err := wire.ParseVariable(proc.Getenv(wire.Variable))
	if err != nil {
		return nil, fmt.Errorf("probesock: %w", err)
	}
	if !asked {
		return nil, nil
	}
	l, err := listen(false)
	if err != nil {
		return nil, fmt.Errorf("probesock: %s=1: %w", wire.Variable, err)
	}
	if l == nil {
		return nil, nil
	}
	return &Listener{l}, nil
}
