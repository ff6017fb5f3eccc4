// Package console writes the output of the commands: results to standard output, and messages for
// people to standard error.
package console

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// Console is standard output and standard error.
type Console struct {
	Out, Err io.Writer

	state   atomic.Int32
	restore atomic.Pointer[func()]
}

// The states of a console.
const (
	running   = iota
	finishing // only the results remain to be written
	staying   // a signal does not end the command
)

// Warn prints a line to standard error, for people. The line may contain strings from traced
// programs. Control characters are not printed, and lines after a line break are indented, so that
// no program can forge such a line.
func (c *Console) Warn(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i, line := range lines {
		lines[i] = text.Printable(strings.TrimPrefix(line, "\t"))
	}
	fmt.Fprintf(c.Err, "stapsdt: %s\n", strings.Join(lines, "\n\t"))
}

// Slow prints that the operation what takes a while, unless done is called within a second, and
// every five seconds its progress, unless that is nil.
func (c *Console) Slow(what string, progress func() string) (done func()) {
	ended := make(chan struct{})
	wait := func(pause time.Duration) bool {
		select {
		case <-ended:
			return false
		case <-time.After(pause):
			return true
		}
	}
	go func() {
		if wait(time.Second) {
			c.Warn("%s, which takes a while", what)
		}
		for progress != nil && wait(5*time.Second) {
			c.Warn("still %s: %s", what, progress())
		}
	}()
	return func() { close(ended) }
}

// Finish notes that only the results remain to be written, which may take more time.
func (c *Console) Finish() { c.state.Store(finishing) }

// Stay notes that the signal has been handled, so that Abandon must not end the command.
func (c *Console) Stay() { c.state.Store(staying) }

// Restore sets the function by which Abandon restores the terminal.
func (c *Console) Restore(f func()) { c.restore.Store(&f) }

// writePatience is the time for which Abandon waits for its message to be written.
const writePatience = 200 * time.Millisecond

// Abandon calls exit after the time after, extended by results if Finish was called by then, unless
// Stay was called. It prints a message, but does not wait long for it: standard error may be the
// reason why the command hangs.
func (c *Console) Abandon(after, results time.Duration, exit func()) {
	time.Sleep(after)
	if c.state.Load() == finishing {
		time.Sleep(results)
		after += results
	}
	if c.state.Load() == staying {
		return
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		if restore := c.restore.Load(); restore != nil {
			(*restore)()
		}
		c.Warn("the command has not ended within %v of the signal, so it ends without its results", after)
	}()
	select {
	case <-said:
	case <-time.After(writePatience):
	}
	exit()
}
