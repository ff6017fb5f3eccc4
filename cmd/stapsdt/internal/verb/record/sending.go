//go:build linux

package record

import (
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
)

// sending sends the recording while it is being made.
type sending struct {
	ended  chan struct{}
	finish func() error // returns when the recording was sent, once it has ended
}

// send begins to send the recording if that is asked for. It calls cancel if sending fails.
func (o *output) send(cancel func()) error {
	if o.options.Increments == nil {
		return nil
	}
	sender, err := mirror.NewSender(o.options.Increments, o.writer)
	if err != nil {
		return err
	}
	s, sent := &sending{ended: make(chan struct{})}, make(chan error, 1)
	go func() {
		err := sender.Run(s.ended)
		if err != nil {
			cancel()
		}
		sent <- err
	}()
	s.finish = sync.OnceValue(func() error {
		close(s.ended)
		return <-sent
	})
	o.sending = s
	return nil
}
