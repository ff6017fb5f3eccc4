//go:build linux

// Package console is where the commands write: results to standard output, and what is for people
// to standard error.
package console

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/text"
)

// Console is standard output and standard error.
type Console struct {
	Out, Err io.Writer

	state atomic.Int32
}

// The states of a console.
const (
	running   = iota
	finishing // only the results are missing
	staying   // a signal does not end it
)

// Warn prints a line for people. Nothing that a program reads is there. Texts from traced programs
// may be in it: their control characters are not printed, and what follows a line break is
// indented, so that no program can write a line that looks like one of these.
func (c *Console) Warn(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i, line := range lines {
		lines[i] = text.Printable(strings.TrimPrefix(line, "\t"))
	}
	fmt.Fprintf(c.Err, "stapsdt: %s\n", strings.Join(lines, "\n\t"))
}

// Slow says what is being done, if that takes more than a second, until done is called.
func (c *Console) Slow(what string) (done func()) {
	timer := time.AfterFunc(time.Second, func() { c.Warn("%s, which takes a while", what) })
	return func() { timer.Stop() }
}

// Finish says that only the results are missing, which may take more time.
func (c *Console) Finish() { c.state.Store(finishing) }

// Stay says that a signal, which has ended what it should, is not to end the rest.
func (c *Console) Stay() { c.state.Store(staying) }

// saying is how long Abandon waits for what it says to be written.
const saying = 200 * time.Millisecond

// Abandon calls exit after a time, or after another one if Finish was called by then, unless Stay was. It says so,
// if that is possible at once: standard error may be what the command waits for.
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
		c.Warn("it has not ended within %v of the signal, and ends without its results", after)
	}()
	select {
	case <-said:
	case <-time.After(saying):
	}
	exit()
}
