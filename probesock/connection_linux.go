package probesock

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/described"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

const (
	// requestPatience is the time that a connection without a watch may be silent, and
	// answerPatience the time that a connection may take to read an answer.
	requestPatience = 10 * time.Second
	answerPatience  = 5 * time.Second
)

// connection is a connection to another process. Its goroutine serves one request after the other.
type connection struct {
	*os.File
	listener *listener

	mu     sync.Mutex // guards the following fields
	memory *memory    // the memory of a watch, or nil
	writer *recorder.Writer
	stop   func() // ends the recording of a watch
}

// serve answers requests until the other side is gone, or has sent an invalid request.
func (c *connection) serve() {
	if err := c.greet(); err != nil {
		return
	}
	for {
		deadline := time.Now().Add(requestPatience)
		if c.watches() {
			deadline = time.Time{}
		}
		_ = c.SetReadDeadline(deadline)
		kind, body, err := wire.Read(c)
		if err != nil {
			return
		}
		if err := c.answer(kind, body); err != nil {
			failure, ok := err.(*wire.Error)
			if !ok {
				return
			}
			if c.send(wire.KindError, failure.Append(nil)) != nil ||
				failure.Code == wire.CodeMalformed {
				return
			}
		}
	}
}

// greet exchanges the versions. It answers another major version with its own.
func (c *connection) greet() error {
	_ = c.SetReadDeadline(time.Now().Add(requestPatience))
	kind, body, err := wire.Read(c)
	if err != nil {
		return err
	}
	hello, err := wire.DecodeHello(body)
	if err != nil || kind != wire.KindHello {
		return errors.Join(err, wire.ErrMalformed)
	}
	if err := c.send(wire.KindHello, c.listener.hello.Append(nil)); err != nil {
		return err
	}
	if hello.Major != wire.Major {
		return errors.New("another version")
	}
	return nil
}

func (c *connection) send(kind wire.Kind, body []byte) error {
	_ = c.SetWriteDeadline(time.Now().Add(answerPatience))
	_, err := c.Write(wire.Append(nil, kind, body))
	return err
}

// answer answers a request.
func (c *connection) answer(kind wire.Kind, body []byte) error {
	switch kind {
	case wire.KindList:
		return c.list()
	case wire.KindWatch:
		watch, err := wire.DecodeWatch(body)
		if err != nil {
			return &wire.Error{Code: wire.CodeMalformed, Text: err.Error()}
		}
		return c.watch(&watch)
	case wire.KindEnd:
		c.end()
		return c.send(wire.KindDone, nil)
	}
	return &wire.Error{Code: wire.CodeUnknown, Text: fmt.Sprintf("the program speaks version %d.%d, which has no request %d", wire.Major, wire.Minor, kind)}
}

// list sends the probes of the process.
func (c *connection) list() error {
	var body []byte
	flush := func() error {
		if len(body) == 0 {
			return nil
		}
		err := c.send(wire.KindProbes, body)
		body = nil
		return err
	}
	for _, p := range stapsdt.Providers() {
		for _, probe := range p.Probes() {
			entry := described.Probe(probe).Append(nil)
			if len(entry) > wire.MaxBody {
				continue // its names do not fit in a message
			}
			if len(body)+len(entry) > wire.MaxBody {
				if err := flush(); err != nil {
					return err
				}
			}
			body = append(body, entry...)
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return c.send(wire.KindDone, nil)
}

func (c *connection) watches() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory != nil
}

// watch begins to append events to memory, and sends the descriptor of the memory.
func (c *connection) watch(w *wire.Watch) error {
	if c.watches() {
		return &wire.Error{Code: wire.CodeMalformed, Text: "the connection watches already"}
	}
	chunks, size, err := c.listener.reserve(w.Bytes)
	if err != nil {
		return err
	}
	m, err := newMemory(c.listener.hello.PID, size)
	if err != nil {
		c.listener.release(size)
		return &wire.Error{Code: wire.CodeMemory, Text: fmt.Sprintf("it has no memory for a watcher: %v", err)}
	}
	defer m.closeDescriptor()
	c.mu.Lock()
	o := recorder.Options{Head: c.listener.head, CannotFail: m.whole}
	c.memory, c.writer = m, recorder.New(m.bytes, chunks, o)
	c.stop = sink.Record(&recorder.Sink{Writer: c.writer, Selects: selects(w.Patterns)}, nil)
	c.mu.Unlock()
	body := (&wire.Watching{Bytes: uint64(size)}).Append(nil)
	_ = c.SetWriteDeadline(time.Now().Add(answerPatience))
	return sendDescriptor(c.File, wire.Append(nil, wire.KindWatching, body), m.fd)
}

// end ends a watch: when it returns, the memory has every event that was fired, and states that it
// has ended.
func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writer != nil {
		c.stop()
		c.listener.rest()
		c.writer.Close() // no fire writes to the memory from here on
		c.writer = nil
	}
	if c.memory != nil {
		c.memory.unmap()
		c.listener.release(c.memory.size)
		c.memory = nil
	}
}
