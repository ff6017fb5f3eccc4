// Package wire defines the messages between a program that listens and the watchers of its probes:
// see docs/protocol.md. All messages are bounded and checked: neither side trusts the other.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The version of the protocol. Programs of one Major understand each other: a message may end with
// fields that a receiver does not know, and a request of an unknown Kind is answered with
// CodeUnknown.
const (
	Major = 1
	Minor = 0
)

// Variable is the environment variable that makes a program listen.
const Variable = "STAPSDT_SOCKET"

// ParseVariable parses the value of Variable, and reports whether the program is to listen.
// cstapsdt/recorder/program.c does the same.
func ParseVariable(value string) (listen bool, err error) {
	switch value {
	case "", "0", "1":
		return value == "1", nil
	}
	return false, fmt.Errorf("%s=%q: it must be 1 to listen, or 0", Variable, value)
}

// Kind is the kind of a message.
type Kind uint32

// The messages. A watcher sends KindHello first, and the program answers with its own.
const (
	KindHello Kind = 1 + iota // a Hello
	// to the program; no body. Answers: as many KindProbes as needed, and KindDone
	KindList
	KindProbes   // entries of the table of a recording
	KindDone     // a request is done
	KindWatch    // to the program: a Watch. The answer is KindWatching, or KindError
	KindWatching // a Watching; the descriptor of the memory comes with its first byte
	KindEnd      // to the program; no body: ends the watch. The answer is KindDone
	KindError    // a request has failed: an Error
)

const (
	// HeadBytes is the size of the head before a body: the body's size and the Kind.
	HeadBytes = 8
	// MaxNamesakes is the maximum number of processes of the same PID and start time that share a
	// directory, each in its own PID namespace.
	MaxNamesakes = 9
	// MaxBody is the largest size of a body.
	MaxBody = 64 << 10
	// MaxPatterns is the largest number of patterns of a Watch.
	MaxPatterns = 256
)

// magic begins the body of each KindHello.
const magic = "STAPSOCK"

// ErrMalformed is the error for bytes that are not a message.
var ErrMalformed = errors.New("the other side has sent something that is not a message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

var le = binary.LittleEndian

// SocketName returns the file name of the nth socket, from 1, of a program with a PID in its own
// namespace and a start time.
func SocketName(pid uint32, start uint64, n int) string {
	if n > 1 {
		return fmt.Sprintf("%d-%d-%d.sock", pid, start, n)
	}
	return fmt.Sprintf("%d-%d.sock", pid, start)
}

// Append appends a message.
func Append(dst []byte, kind Kind, body []byte) []byte {
	dst = le.AppendUint32(dst, uint32(len(body)))
	dst = le.AppendUint32(dst, uint32(kind))
	return append(dst, body...)
}

// Read reads a message.
func Read(r io.Reader) (kind Kind, body []byte, err error) {
	var head [HeadBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := le.Uint32(head[:])
	if size > MaxBody {
		return 0, nil, malformed("it has %d bytes", size)
	}
	body = make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return Kind(le.Uint32(head[4:])), body, nil
}

// Hello identifies the sender. PID is the PID of the program in its own namespace, and Start its
// start time, in ticks since the boot. A watcher leaves both 0.
type Hello struct {
	Major, Minor uint16
	PID          uint32
	Start        uint64
}

// Append appends the body.
func (h *Hello) Append(dst []byte) []byte {
	dst = append(dst, magic...)
	dst = le.AppendUint16(dst, h.Major)
	dst = le.AppendUint16(dst, h.Minor)
	dst = le.AppendUint32(dst, h.PID)
	return le.AppendUint64(dst, h.Start)
}

// DecodeHello decodes the body of a KindHello of any version.
func DecodeHello(b []byte) (h Hello, err error) {
	if len(b) < len(magic)+4 || string(b[:len(magic)]) != magic {
		return h, malformed("it does not begin like one")
	}
	c := cursor{b: b[len(magic):]}
	h.Major, h.Minor = c.uint16(), c.uint16()
	if h.Major != Major {
		return h, nil // the rest has that version's format
	}
	h.PID, h.Start = c.uint32(), c.uint64()
	return h, c.err
}

// Pattern selects probes by two globs, with *, ? and [a-z].
type Pattern struct{ Provider, Probe string }

// Watch requests the events of the probes that one of the patterns selects, including probes that
// are defined later, in a recording in memory with chunks of about Bytes bytes.
type Watch struct {
	Bytes    uint64
	Patterns []Pattern
}

// Append appends the body.
func (w *Watch) Append(dst []byte) []byte {
	dst = le.AppendUint64(dst, w.Bytes)
	dst = le.AppendUint32(dst, uint32(len(w.Patterns)))
	dst = le.AppendUint32(dst, 0)
	for _, p := range w.Patterns {
		dst = le.AppendUint16(dst, uint16(len(p.Provider)))
		dst = le.AppendUint16(dst, uint16(len(p.Probe)))
		dst = append(append(dst, p.Provider...), p.Probe...)
	}
	return dst
}

// DecodeWatch decodes the body of a KindWatch.
func DecodeWatch(b []byte) (w Watch, err error) {
	c := cursor{b: b}
	w.Bytes = c.uint64()
	n := c.uint32()
	c.uint32()
	if n > MaxPatterns {
		return w, malformed("it has %d patterns", n)
	}
	for range n {
		provider, probe := c.uint16(), c.uint16()
		w.Patterns = append(w.Patterns, Pattern{c.text(int(provider)), c.text(int(probe))})
	}
	return w, c.err
}

// Watching has the size of the memory.
type Watching struct{ Bytes uint64 }

// Append appends the body.
func (w *Watching) Append(dst []byte) []byte { return le.AppendUint64(dst, w.Bytes) }

// DecodeWatching decodes the body of a KindWatching.
func DecodeWatching(b []byte) (w Watching, err error) {
	c := cursor{b: b}
	w.Bytes = c.uint64()
	return w, c.err
}

// Code is the reason why a request has failed.
type Code uint32

// The codes.
const (
	CodeVersion   Code = 1 + iota // the other side has another Major
	CodeMalformed                 // the request is not a message, or is not allowed here
	CodeUnknown                   // the Kind of the request is unknown
	CodeBusy                      // there are too many watchers
	CodeMemory                    // there is no memory for a watcher
)

// Error is the reason why a request has failed, for programs and for people.
type Error struct {
	Code Code
	Text string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Append appends the body.
func (e *Error) Append(dst []byte) []byte {
	return append(le.AppendUint32(dst, uint32(e.Code)), e.Text...)
}

// maxText is the maximum number of bytes of a text that are read.
const maxText = 1024

// DecodeError decodes the body of a KindError.
func DecodeError(b []byte) (*Error, error) {
	c := cursor{b: b}
	e := &Error{Code: Code(c.uint32())}
	e.Text = string(c.b[:min(len(c.b), maxText)])
	return e, c.err
}

// cursor decodes a body. After an error, everything is zero.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) take(n int) []byte {
	if c.err == nil && n > len(c.b) {
		c.err = malformed("it ends too early")
	}
	if c.err != nil {
		c.b = nil
		return make([]byte, min(n, 8))
	}
	taken := c.b[:n]
	c.b = c.b[n:]
	return taken
}

func (c *cursor) uint16() uint16 { return le.Uint16(c.take(2)) }
func (c *cursor) uint32() uint32 { return le.Uint32(c.take(4)) }
func (c *cursor) uint64() uint64 { return le.Uint64(c.take(8)) }

func (c *cursor) text(n int) string {
	b := c.take(n)
	if c.err != nil {
		return ""
	}
	return string(b)
}
