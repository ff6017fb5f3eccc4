//go:build linux

package debugger

import (
	"context"
	"io"
)

// Input is the standard input of a question.
type Input struct {
	stopped, gone context.Context
}

// ReadInput reads the input until it ends.
func ReadInput(from io.Reader) *Input {
	stopped, stop := context.WithCancel(context.Background())
	gone, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		defer stop()
		b := make([]byte, 1)
		for {
			n, err := from.Read(b)
			if n > 0 {
				stop()
			}
			if err != nil {
				return
			}
		}
	}()
	return &Input{stopped, gone}
}

// Stopped returns a context that is done when a byte has arrived or the input has ended.
func (i *Input) Stopped() context.Context { return i.stopped }

// Gone returns a context that is done when the input has ended.
func (i *Input) Gone() context.Context { return i.gone }
