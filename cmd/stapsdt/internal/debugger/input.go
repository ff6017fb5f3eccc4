//go:build linux

package debugger

import (
	"context"
	"io"
)

// ReadInput reads the standard input of a question. stopped is done when a byte has arrived or the input has ended, and
// gone when it has ended.
func ReadInput(from io.Reader) (stopped, gone context.Context) {
	stopped, stop := context.WithCancel(context.Background())
	gone, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		defer stop()
		for b := make([]byte, 1); ; {
			n, err := from.Read(b)
			if n > 0 {
				stop()
			}
			if err != nil {
				return
			}
		}
	}()
	return stopped, gone
}
