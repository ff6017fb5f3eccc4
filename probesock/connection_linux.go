package probesock

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"
	"unsafe"
	"weak"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

const (
	// requestPatience is how long a connection may be silent that watches nothing, and answerPatience how
	// long it may take to read an answer.
	requestPatience = 10 * time.Second
	answerPatience  = 5 * time.Second
)

// connection is a process that is connected. Its goroutine serves one request after the other.
type connection struct {
	*net.UnixConn
	listener *listener

	mu       sync.Mutex // guards what follows
	memory   *memory    // of a watch, or nil
	writer   *recorder.Writer
	patterns []wire.Pattern
	// watched has the providers that were selected, and what ends the watch of each. Those that are garbage are removed when there are
	// more than most.
	watched map[weak.Pointer[stapsdt.Provider]]func()
	most    int
}

// serve answers requests until the other side is gone, or has sent what is no request.
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
			var failure *wire.Error
			if !errors.As(err, &failure) {
				return
			}
			if c.send(wire.KindError, failure.Append(nil)) != nil || failure.Code == wire.CodeMalformed {
				return
			}
		}
	}
}

// greet exchanges the versions. The answer to another major version is this one's.
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
		// SAFETY: it is the address of a Provider, which p keeps alive.
		for _, probe := range recorder.Probes(unsafe.Pointer(p)) {
			entry := probe.Append(nil)
			if len(entry) > wire.MaxBody {
				continue // its names take more than a message
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

// watch begins to append events to memory, whose descriptor it sends.
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
	c.memory, c.patterns, c.watched = m, w.Patterns, map[weak.Pointer[stapsdt.Provider]]func(){}
	c.writer = recorder.New(m.bytes, chunks, recorder.Options{Head: c.listener.head})
	c.mu.Unlock()
	for _, p := range stapsdt.Providers() {
		c.observe(p)
	}
	body := (&wire.Watching{Bytes: uint64(size)}).Append(nil)
	_ = c.SetWriteDeadline(time.Now().Add(answerPatience))
	return m.send(c.UnixConn, wire.Append(nil, wire.KindWatching, body))
}

// observe begins to append the events of a provider, if it is selected and was not yet found.
func (c *connection) observe(p *stapsdt.Provider) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory == nil || c.watched[weak.Make(p)] != nil {
		return
	}
	if only := selected(c.patterns, p.Name()); only != nil {
		c.prune()
		// SAFETY: it is the address of a Provider, which p keeps alive.
		c.watched[weak.Make(p)] = recorder.Observe(unsafe.Pointer(p), c.writer, only)
	}
}

// prune removes the providers that are garbage, if half of those in watched can be.
func (c *connection) prune() {
	if len(c.watched) <= c.most {
		return
	}
	maps.DeleteFunc(c.watched, func(p weak.Pointer[stapsdt.Provider], _ func()) bool { return p.Value() == nil })
	c.most = 2*len(c.watched) + 64
}

// end ends a watch: when it returns, the memory has every event that was fired, and says that it has ended.
func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stop := range c.watched {
		stop()
	}
	c.patterns, c.watched = nil, nil
	if c.writer != nil {
		c.listener.rest()
		c.writer.Close() // no fire is in the memory from here on
		c.writer = nil
	}
	if c.memory != nil {
		c.memory.unmap()
		c.listener.release(c.memory.size)
		c.memory = nil
	}
}
