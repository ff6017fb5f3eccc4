//go:build linux && (amd64 || arm64)

package soak

import (
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
)

// cycle is what is done again and again in a lane. It returns a function that does it once, with a window in it, and
// one that ends it.
type cycle func(r *run, number int, l *lane) (once func(window int) error, end func() error, err error)

// attached loads a provider of one probe, with a tracer attached to its file.
func (r *run) attached(number int) (p *stapsdt.Provider, f fire, end func() error, err error) {
	p, fires, sites, err := r.provider(fmt.Sprint("soak", number), number, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	link, err := r.counter.Attach(p.Path(), sites)
	if err != nil {
		return nil, nil, nil, err
	}
	return p, fires[0], func() error { return errors.Join(link.Close(), p.Close()) }, nil
}

// stay keeps the provider loaded and the tracer attached: only windows pass.
func stay(r *run, number int, l *lane) (func(int) error, func() error, error) {
	_, fire, end, err := r.attached(number)
	once := func(window int) error { return r.window(number, l, window, fire) }
	return once, end, err
}

// attach attaches for the time of the window. The lanes have probes of one file.
func attach(r *run, number int, l *lane) (func(int) error, func() error, error) {
	r.once.Do(func() {
		r.shared, r.sharedFires, r.sharedSites, r.sharedErr = r.provider("soak", 0, r.lanes)
	})
	if r.sharedErr != nil {
		return nil, nil, r.sharedErr
	}
	fire := r.sharedFires[number]
	if err := r.outside(l, fire); err != nil {
		return nil, nil, err
	}
	site := r.sharedSites[number]
	site.Cookie = uint64(number)
	once := func(window int) error {
		link, err := r.counter.Attach(r.shared.Path(), []bpf.Site{site})
		if err != nil {
			return err
		}
		return errors.Join(r.window(number, l, window, fire), link.Close())
	}
	return once, func() error { return nil }, nil
}

// reload loads for the time of the window, while a tracer stays attached to the file.
func reload(r *run, number int, l *lane) (func(int) error, func() error, error) {
	p, fire, end, err := r.attached(number)
	once := func(window int) error {
		if err := p.Unload(); err != nil {
			return err
		}
		if err := p.Load(); err != nil {
			return err
		}
		return r.window(number, l, window, fire)
	}
	return once, end, err
}

// churn has a new provider for each window, as a plugin has, and a tracer that attaches to it. The provider is unloaded and loaded
// under the tracer before the window. Firers hold on to its probe until the next one is there.
func churn(r *run, number int, l *lane) (func(int) error, func() error, error) {
	once := func(window int) error {
		p, fires, sites, err := r.provider(fmt.Sprintf("soak%d-%d", number, window), number, 1)
		if err != nil {
			return err
		}
		if err := r.outside(l, fires[0]); err != nil {
			return err
		}
		link, err := r.counter.Attach(p.Path(), sites)
		if err != nil {
			return err
		}
		if err = errors.Join(p.Unload(), p.Load()); err == nil {
			err = r.window(number, l, window, fires[0])
		}
		return errors.Join(err, link.Close(), p.Close())
	}
	return once, func() error { return nil }, nil
}
