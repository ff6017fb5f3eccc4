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

// sinks are the recordings of a provider for one probe.
type sinks struct {
	sink.Probe // appends to all recordings that have the probe
	list       []probeSink
	alone      bool // whether there are any, and the provider has no observers
}

// probeSink is a recording, and the sink.Probe that appends the fires of one probe to it, or nil if it does not have the probe.
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

// sinksOf returns the recordings, or nil if there are none, and whether one of them has the probe.
// It queries each recording only once. The provider's lock is held.
func (p *Probe) sinksOf(o *observers) (all *sinks, recorded bool) {
	if len(o.sinks) == 0 {
		return nil, false
	}
	var before []probeSink
	if s := p.sinks.Load(); s != nil {
		before = s.list
	}
	all = new(sinks)
	var having several
	for _, s := range o.sinks {
		one := probeSink{Sink: s}
		if i := slices.IndexFunc(before, func(other probeSink) bool { return other.Sink == s }); i >= 0 {
			one = before[i]
		} else {
			one.probe = s.Probe(p.recorded)
		}
		all.list = append(all.list, one)
		if one.probe != nil {
			having = append(having, one)
		}
	}
	if all.Probe = having; len(having) == 1 {
		all.Probe = having[0].probe
	}
	all.alone = len(having) > 0 && len(o.list) == 0
	return all, len(having) > 0
}

// several appends the fires of a probe to several recordings.
type several []probeSink

func (s several) Append(args unsafe.Pointer) {
	for i := range s {
		s[i].probe.Append(args)
	}
}

func (s several) AppendConverted(a *words.Arguments) {
	for i := range s {
		s[i].probe.AppendConverted(a)
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
