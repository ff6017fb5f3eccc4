package stapsdt

import (
	"container/list"
	"errors"
	"sync"
	"weak"

	"github.com/go-stapsdt/stapsdt/internal/tracer"
)

// registry lists the process's providers without keeping them alive.
type registry struct {
	mu sync.Mutex
	// open holds the records of the providers that are not closed, in the order of their
	// definition.
	open list.List
	// loaded holds the providers that are loaded or being loaded, by name.
	loaded map[string]*namesakes
	// followers holds functions that are called with each provider that is defined.
	followers list.List
}

// providers is the process's registry. Its lock may be taken while a provider's lock is
// held, but not the other way round.
var providers registry

// record is a provider's entry in the registry. It refers to the provider only weakly, so
// that it does not keep it alive.
type record struct {
	provider weak.Pointer[Provider]
	name     string
	// waiting reports whether the provider was never loaded, so that LoadAll loads it.
	waiting bool
	open    *list.Element // element of the registry's open, or nil
	loaded  *list.Element // element of the records of its namesakes, or nil
	shares  []string      // the names of the probes that it owns in what its namesakes share
}

// define records a new provider.
func (g *registry) define(r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.waiting, r.open = true, g.open.PushBack(r)
}

// follow calls f with each provider that is defined from now on, until stop is called.
func (g *registry) follow(f func(*Provider)) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	follower := g.followers.PushBack(f)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.followers.Remove(follower)
	}
}

// tell calls the followers with a provider that was just defined. The lock is not held.
func (g *registry) tell(p *Provider) {
	var followers []func(*Provider)
	g.mu.Lock()
	for e := g.followers.Front(); e != nil; e = e.Next() {
		followers = append(followers, e.Value.(func(*Provider)))
	}
	g.mu.Unlock()
	for _, f := range followers {
		f(p)
	}
}

// reachable returns the providers that are not closed, in the order of their definition, or
// only those that wait for LoadAll.
func (g *registry) reachable(waiting bool) (all []*Provider) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for e := g.open.Front(); e != nil; e = e.Next() {
		r := e.Value.(*record)
		if p := r.provider.Value(); p != nil && (r.waiting || !waiting) {
			all = append(all, p)
		}
	}
	return all
}

// Providers returns the providers of the process, in the order of their definition. NewProvider
// adds a provider to the list. It stays there until it is closed, or until it and all of its probes
// are unreachable.
func Providers() []*Provider { return providers.reachable(false) }

// waits reports whether a provider was never loaded and is not closed.
func (g *registry) waits(r *record) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.waiting
}

// leave ends the wait of a provider that was loaded.
func (g *registry) leave(r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.waiting = false
}

// closed removes a provider that was closed, or is unreachable, from the list.
func (g *registry) closed(r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.waiting = false
	if r.open != nil {
		g.open.Remove(r.open)
		r.open = nil
	}
}

// forget removes every trace of a provider that is unreachable.
func (g *registry) forget(r *record) {
	g.closed(r)
	g.disclaim(r)
}

// LoadAll loads every provider of the process that was never loaded and is not closed, in
// the order of their definition. It does not reload a provider that was unloaded, but it
// tries again to load one whose Load has failed. If some providers cannot be loaded,
// LoadAll loads the others and returns the joined errors, each of which is an *Error.
//
// With LoadAll, a library can define its probes as package variables and load nothing. The
// program decides, and calls LoadAll once, in main:
//
//	func main() {
//		if err := stapsdt.LoadAll(); err != nil {
//			log.Print(err) // the probes of these providers stay no-ops
//		}
//		...
//	}
//
// LoadAll waits once, after all loads, for a tracer that has started the program: see
// [Provider.Load].
func LoadAll() error {
	var errs []error
	var names []string
	for _, p := range providers.reachable(true) {
		loaded, err := p.loadFirst()
		if loaded {
			names = append(names, p.name)
		}
		errs = append(errs, err)
	}
	if len(names) > 0 {
		tracer.Await(names...)
	}
	return errors.Join(errs...)
}

// loadFirst loads a provider, unless it was loaded or closed in the meantime.
func (p *Provider) loadFirst() (loaded bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !providers.waits(p.record) {
		return false, nil
	}
	err = p.load()
	return err == nil, err
}
