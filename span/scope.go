package span

import (
	"context"
	"fmt"

	"github.com/go-stapsdt/stapsdt/internal/operation"
)

// maxDepth is the largest number of scopes in a context, and of contexts that are searched for the
// nearest scope. [context.Context.Value] walks through the types of package context in a loop, but
// calls itself at each scope.
const maxDepth = operation.MaxDepth

// ID returns the ID of the reported span that a context belongs to, or 0 if there is none. It
// is the first argument of the span's probes.
//
// ID calls no method of the context, which could lock, block or panic: it knows the types of
// package context, and stops at a context whose type is not from package context.
func ID(ctx context.Context) uint64 {
	if s, _ := nearest(ctx); s != nil {
		return s.id
	}
	return 0
}

// scope is the context of a span.
type scope struct {
	context.Context
	id    uint64
	depth uint32 // the number of scopes in the list, including this one
}

// Within lets package operation find the parent.
func (c *scope) Within() operation.Parent { return operation.Parent{Context: c.Context} }

func (c *scope) String() string { return fmt.Sprintf("%v.Span(%d)", c.Context, c.id) }

// scopeOfAfterFuncer is a scope in a context that has a method AfterFunc. If package context does
// not know the type of a context without this method, it starts a goroutine for each context below
// it.
type scopeOfAfterFuncer scope

type afterFuncer interface {
	AfterFunc(f func()) (stop func() bool)
}

func (c *scopeOfAfterFuncer) AfterFunc(f func()) (stop func() bool) {
	return c.Context.(afterFuncer).AfterFunc(f)
}

func (c *scopeOfAfterFuncer) Within() operation.Parent { return (*scope)(c).Within() }

func (c *scopeOfAfterFuncer) String() string { return (*scope)(c).String() }

// of returns the scope that a context is, or nil.
func of(ctx context.Context) *scope {
	switch c := ctx.(type) {
	case *scope:
		return c
	case *scopeOfAfterFuncer:
		return (*scope)(c)
	}
	return nil
}

// derive makes c the scope of a span that starts in ctx, and returns the span's context. within is
// the nearest scope of ctx. A scope directly in another has everything that the other has, except
// the ID.
func (c *scope) derive(ctx context.Context, within *scope, found bool) context.Context {
	c.depth = 1
	if direct := of(ctx); direct != nil {
		c.Context, c.depth = direct.Context, direct.depth
	} else {
		c.Context = ctx
		if within != nil {
			c.depth = within.depth + 1
		}
	}
	if !found || c.depth > maxDepth {
		c.Context = nil
		return ctx
	}
	if _, ok := c.Context.(afterFuncer); ok {
		return (*scopeOfAfterFuncer)(c)
	}
	return c
}

// nearest returns the scope that a context belongs to, or nil. found is false if the search
// ended before the list did. A context whose type is the program's own ends the list.
func nearest(ctx context.Context) (s *scope, found bool) {
	for range maxDepth {
		if s := of(ctx); s != nil {
			return s, true
		}
		within, ok := operation.Within(ctx)
		if !ok {
			return nil, true
		}
		ctx = within
	}
	return nil, false
}
