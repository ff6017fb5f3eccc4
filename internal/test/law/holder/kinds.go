//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/span"
)

// begin starts an operation and returns when it is in flight. n is part of what it is asked and of its result. Several
// goroutines may begin operations.
type begin func(n int) (end, error)

// end ends an operation and returns an error if its result is wrong.
type end func() error

// kinds are the kinds of operations. A function defines the probes in a provider.
var kinds = map[string]func(*stapsdt.Provider) begin{
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

// once returns a function that defines probes when it is first called: kinds share them.
func once[T any](define func(*stapsdt.Provider, ...span.Option) *T) func(*stapsdt.Provider) *T {
	var probes *T
	return func(p *stapsdt.Provider) *T {
		if probes == nil {
			probes = define(p)
		}
		return probes
	}
}

// call is an operation that is a call of a function, which needs a goroutine while it is in flight.
type call struct {
	inside chan struct{} // is closed by what the function calls
	leave  chan struct{} // is closed when that may return
}

// callOf calls a function and returns when it is in flight. The context has the call.
func callOf(f func(ctx context.Context) error) (end, error) {
	c, result := &call{make(chan struct{}), make(chan struct{})}, make(chan error, 1)
	go func() { result <- f(context.WithValue(context.Background(), callKey{}, c)) }()
	select {
	case <-c.inside:
		return func() error {
			close(c.leave)
			return <-result
		}, nil
	case err := <-result:
		return nil, fmt.Errorf("it returned at once: %w", errors.Join(errors.New("not in flight"), err))
	}
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
