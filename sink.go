package stapsdt

import (
	"cmp"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// sinks are the recordings of a provider for one probe, and its observers.
type sinks struct {
	sink.Probe // passes a fire to the recordings that have the probe and to the observers, or nil
	list       []probeSink
}

// probeSink is a recording, and the sink.Probe that appends the fires of one probe to it, or nil if
// it does not have the probe.
type probeSink struct {
	sink.Sink
	probe sink.Probe
}

// recordTo is sink.Record, for packages proberec and probesock.
//
//go:linkname recordTo github.com/go-stapsdt/stapsdt/internal/recording/sink.Record
func recordTo(s sink.Sink, of any) (stop func()) {
	some, _ := of.([]*Provider)
	var stopped atomic.Bool
	set := func(p *Provider) { p.setRecording(s, &stopped) }
	unfollow, all := func() {}, func() []*Provider { return some }
	if len(some) == 0 {
		unfollow, all = providers.follow(set), Providers
	}
	for _, p := range all() {
		set(p)
	}
	return func() {
		stopped.Store(true)
		unfollow()
		for _, p := range all() {
			set(p)
		}
	}
}

// setRecording begins to append the provider's fires to a recording, or stops it if the
// recording was stopped.
func (p *Provider) setRecording(s sink.Sink, stopped *atomic.Bool) {
	if p.zero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.copyObservers()
	all.sinks = slices.DeleteFunc(all.sinks, func(other sink.Sink) bool { return other == s })
	if !p.closed && !stopped.Load() {
		all.sinks = append(all.sinks, s)
	}
	p.setObservers(all)
}

// sinksOf returns what sees the probe's fires in the program. It queries each recording only once.
// The provider's lock is held.
func (p *Probe) sinksOf(o *observers) *sinks {
	var before []probeSink
	if s := p.sinks.Load(); s != nil {
		before = s.list
	}
	all := new(sinks)
	var having several
	for _, s := range o.sinks {
		one := probeSink{Sink: s}
		isIt := func(other probeSink) bool { return other.Sink == s }
		if i := slices.IndexFunc(before, isIt); i >= 0 {
			one = before[i]
		} else {
			one.probe = s.Probe(p.recorded)
		}
		all.list = append(all.list, one)
		if one.probe != nil {
			having = append(having, one.probe)
		}
	}
	if o.delivery != nil {
		if d := o.delivery(p, o.list); d != nil {
			having = append(having, d)
		}
	}
	switch len(having) {
	case 0:
	case 1:
		all.Probe = having[0]
	default:
		all.Probe = having
	}
	return all
}

// several passes the fires of a probe to several others.
type several []sink.Probe

func (s several) Append(args unsafe.Pointer) {
	for _, p := range s {
		p.Append(args)
	}
}

func (s several) AppendConverted(a *words.Arguments) {
	for _, p := range s {
		p.AppendConverted(a)
	}
}

// recorded describes the probe for a recording. The names are final if there are any.
func (p *Probe) recorded() (r *recording.Probe, named bool) {
	r, named = &recording.Probe{Provider: p.provider.name, Name: p.name}, true
	for i, a := range p.Args() {
		named = named && a.Name != ""
		name := cmp.Or(a.Name, defaultNames[i])
		k := kind.Kind(a.Kind)
		r.Args = append(r.Args, recording.Arg{Name: name, Kind: k, Type: k.Type(a.Type.Size())})
	}
	return r, named
}

// This compiles only if package recording has the same types and lengths as this package: neither
// difference may be negative.
const (
	_ = uint(String-kind.TypeString) + uint(kind.TypeString-String)
	_ = uint(Float32-kind.TypeFloat32) + uint(kind.TypeFloat32-Float32)
	_ = uint(MaxArgs-recording.MaxArgs) + uint(recording.MaxArgs-MaxArgs)
	_ = uint(MaxString-1-recording.MaxText) + uint(recording.MaxText-MaxString+1)
)
