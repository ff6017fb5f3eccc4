package stapsdt

import (
	"slices"
	"strconv"
	"sync/atomic"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// sinks are the recordings that have a probe.
type sinks struct {
	sink.Probe // appends to all of them
	list       []probeSink
	alone      bool // whether the provider has no observers
}

// probeSink is a recording, and what appends the fires of one probe to it.
type probeSink struct {
	sink.Sink
	probe sink.Probe
}

// RecordTo appends the fires of some providers to a recording until stop is called, or of all providers of the process,
// including those that are defined later, if none is given. A fire that begins after stop has returned is not appended.
//
// It serves the packages proberec and probesock: the Sink is internal to this module.
func RecordTo(s sink.Sink, some ...*Provider) (stop func()) {
	if s == nil {
		return func() {}
	}
	var stopped atomic.Bool
	record := func(p *Provider) { p.recordTo(s, &stopped) }
	unfollow, all := func() {}, func() []*Provider { return some }
	if len(some) == 0 {
		unfollow, all = providers.follow(record), Providers
	}
	for _, p := range all() {
		record(p)
	}
	return func() {
		stopped.Store(true)
		unfollow()
		for _, p := range all() {
			p.endRecording(s)
		}
	}
}

// recordTo appends the provider's fires to a recording, unless that has ended in the meantime.
func (p *Provider) recordTo(s sink.Sink, stopped *atomic.Bool) {
	if p.zero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.copyObservers()
	if p.closed || stopped.Load() || slices.Contains(all.sinks, s) {
		return
	}
	all.sinks = append(all.sinks, s)
	p.setObservers(all)
}

// endRecording undoes recordTo.
func (p *Provider) endRecording(s sink.Sink) {
	if p.zero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.copyObservers()
	all.sinks = slices.DeleteFunc(all.sinks, func(other sink.Sink) bool { return other == s })
	p.setObservers(all)
}

// sinksOf returns the recordings that have the probe, or nil if none has. What appends to one that had the probe before
// stays. The provider's lock is held.
func (p *Probe) sinksOf(o *observers) *sinks {
	all, before := &sinks{alone: len(o.list) == 0}, p.sinks.Load()
	for _, s := range o.sinks {
		one := probeSink{Sink: s}
		if before != nil {
			if i := slices.IndexFunc(before.list, func(other probeSink) bool { return other.Sink == s }); i >= 0 {
				one = before.list[i]
			}
		}
		if one.probe == nil {
			one.probe = s.Probe(p.recorded)
		}
		if one.probe != nil {
			all.list = append(all.list, one)
		}
	}
	switch len(all.list) {
	case 0:
		return nil
	case 1:
		all.Probe = all.list[0].probe
	default:
		all.Probe = several(all.list)
	}
	return all
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
	r = &recording.Probe{Provider: p.provider.name, Name: p.name}
	names := p.argNames()
	for i, t := range p.args {
		a := recording.Arg{Name: "arg" + strconv.Itoa(i), Type: int8(t), Kind: recording.Kind(p.kinds[i])}
		if names != nil {
			a.Name = names[i]
		}
		r.Args = append(r.Args, a)
	}
	return r, len(p.args) == 0 || names != nil
}

// The kinds, types and lengths of package recording are those of this package, or else this does not compile:
// neither difference may be negative.
const (
	_ = uint(KindInt64-Kind(recording.Int64)) + uint(Kind(recording.Int64)-KindInt64)
	_ = uint(KindPointer-Kind(recording.Pointer)) + uint(Kind(recording.Pointer)-KindPointer)
	_ = uint(String-recording.TypeString) + uint(recording.TypeString-String)
	_ = uint(Float32-recording.TypeFloat32) + uint(recording.TypeFloat32-Float32)
	_ = uint(MaxArgs-recording.MaxArgs) + uint(recording.MaxArgs-MaxArgs)
	_ = uint(MaxString-1-recording.MaxText) + uint(recording.MaxText-MaxString+1)
)
