//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt"
)

// kinds are the kinds of operations. A function defines the probes in a provider.
var kinds = map[string]func(*stapsdt.Provider) operations{
	"request":     newRequests,
	"fetch":       newFetches,
	"query":       newQueries,
	"transaction": newTransactions,
	"rpc":         newRPCs,
	"dial":        newDials,
	"accept":      newAccepts,
	"handshake":   newHandshakes,
	"log":         newLogs,
	"span":        newSpans,
	"otel":        newOtelSpans,
}

// operations are operations of a kind. Several goroutines may begin some.
type operations interface {
	// begin starts an operation and returns when it is in flight. n is part of what it is
	// asked and of its result.
	begin(n int) (operation, error)
}

// operation is an operation in flight.
type operation interface {
	// end ends it and returns an error if its result is wrong.
	end() error
}

// call is an operation that is a call of a function, which needs a goroutine while it is in flight.
type call struct {
	inside chan struct{} // is closed by what the function calls
	leave  chan struct{} // is closed when that may return
	result chan error
}

// callOf calls a function and returns when it is in flight. The context has the call.
func callOf(f func(ctx context.Context) error) (operation, error) {
	c := &call{make(chan struct{}), make(chan struct{}), make(chan error, 1)}
	go func() { c.result <- f(context.WithValue(context.Background(), callKey{}, c)) }()
	select {
	case <-c.inside:
		return c, nil
	case err := <-c.result:
		return nil, fmt.Errorf("it returned at once: %w", errors.Join(errors.New("not in flight"), err))
	}
}

func (c *call) end() error {
	close(c.leave)
	return <-c.result
}

// stay is what the function calls inside of the instrumentation. It returns when the operation
// is to end.
func (c *call) stay() {
	close(c.inside)
	<-c.leave
}

type callKey struct{}

// callIn returns the call that a context belongs to.
func callIn(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// differs returns an error if a result is not as it should be.
func differs[T comparable](want, got T) error {
	if want != got {
		return fmt.Errorf("want %v, got %v", want, got)
	}
	return nil
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
