package stapsdt

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// sink is a recording to which the fires of a provider are appended.
type sink struct {
	writer *recorder.Writer
	only   func(probe string) bool // whether the recording has a probe, by its name; nil means that it has all
	mu     sync.Mutex              // guards numbers
	// numbers are those of the probes in the recording, by their index in the provider: 1 more than
	// the number, 0 if it is not known yet, or noNumber.
	numbers []uint32
}

// noNumber is that of a probe for which the recording has no room.
const noNumber = ^uint32(0)

// sinks are those of a provider's probe.
type sinks struct {
	list []numbered
	// append appends a fire whose arguments have the types of the probe, and are at these addresses,
	// and appendConverted one whose arguments were converted for tracers and observers.
	append          func(p *Probe, s *sinks, args unsafe.Pointer)
	appendConverted func(p *Probe, s *sinks, a unsafe.Pointer)
	// alone says that there are no observers beside the recordings.
	alone bool
	// writer and number are those of the only sink, if it has a number for the probe.
	writer *recorder.Writer
	number uint32
}

// numbered is a sink and the number that it has for a probe, as sink.numbers has it.
type numbered struct {
	*sink
	number uint32
}

// recordTo appends the fires of a provider, or of those of its probes for whose names only returns true, to
// a recording until stop is called. It is called by packages of this module, as recorder.Observe; a
// fire that begins after stop has returned is not appended. stop does not keep the provider alive.
//
//go:linkname recordTo github.com/go-stapsdt/stapsdt/internal/recording/recorder.Observe
func recordTo(provider unsafe.Pointer, w *recorder.Writer, only func(probe string) bool) (stop func()) {
	// SAFETY: recorder.Observe is called with a *Provider.
	p := (*Provider)(provider)
	if p.zero() {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return func() {}
	}
	s := &sink{writer: w, only: only}
	all := p.copyObservers()
	all.sinks, all.sinksOf = append(all.sinks, s), sinksOf
	p.setObservers(all)
	reference := weak.Make(p)
	return func() {
		p := reference.Value()
		if p == nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		all := p.copyObservers()
		all.sinks = slices.DeleteFunc(all.sinks, func(other *sink) bool { return other == s })
		p.setObservers(all)
	}
}

// probesOf describes the probes of a provider. It is called by packages of this module, as
// recorder.Probes.
//
//go:linkname probesOf github.com/go-stapsdt/stapsdt/internal/recording/recorder.Probes
func probesOf(provider unsafe.Pointer) (all []*recording.Probe) {
	// SAFETY: recorder.Probes is called with a *Provider.
	p := (*Provider)(provider)
	if p.zero() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, probe := range p.probes {
		all = append(all, probe.recorded())
	}
	return all
}

// eachDefined calls f with each provider that is defined from now on, until stop is called. It is called
// by packages of this module, as recorder.Defined.
//
//go:linkname eachDefined github.com/go-stapsdt/stapsdt/internal/recording/recorder.Defined
func eachDefined(f func(provider unsafe.Pointer)) (stop func()) {
	return providers.follow(func(p *Provider) { f(unsafe.Pointer(p)) })
}

// sinksOf returns the sinks of a probe, or nil if there are none. The provider's lock is held.
func sinksOf(o *observers, p *Probe) *sinks {
	all := &sinks{append: appendTexts, appendConverted: appendConverted, alone: len(o.list) == 0}
	for _, s := range o.sinks {
		if s.only != nil && !s.only(p.name) {
			continue
		}
		number := uint32(0)
		// The names of others may still be given.
		if len(p.args) == 0 || p.argNames() != nil {
			number = s.number(p)
		}
		all.list = append(all.list, numbered{s, number})
	}
	if len(all.list) == 0 {
		return nil
	}
	if p.strings == 0 {
		all.append = appendNumbers
		if first := all.list[0]; len(all.list) == 1 && first.number != 0 && first.number != noNumber {
			all.append, all.writer, all.number = appendNumbersOnce, first.writer, first.number-1
		}
	}
	return all
}

// find returns the number of a probe, which the recording may not have yet, and false if there is no room
// for it, which loses the event.
//
//go:noinline
func (n *numbered) find(p *Probe) (number uint32, ok bool) {
	number = atomic.LoadUint32(&n.number)
	if number == 0 {
		number = n.sink.number(p)
		atomic.StoreUint32(&n.number, number)
	}
	if number == noNumber {
		n.writer.Drop()
	}
	return number, number != noNumber
}

// appendNumbers appends a fire of a typed probe without strings. args is the address of as many pointers as
// the probe has arguments.
func appendNumbers(p *Probe, s *sinks, args unsafe.Pointer) {
	for i := range s.list {
		to, ok := &s.list[i], true
		number := atomic.LoadUint32(&to.number)
		if number == 0 || number == noNumber {
			number, ok = to.find(p)
		}
		if ok {
			to.writer.AppendNumbers(number-1, len(p.args), unsafe.Pointer(unsafe.SliceData(p.args)), args)
		}
	}
}

// appendNumbersOnce is appendNumbers for a single recording, which has a number for the probe.
func appendNumbersOnce(p *Probe, s *sinks, args unsafe.Pointer) {
	s.writer.AppendNumbers(s.number, len(p.args), unsafe.Pointer(unsafe.SliceData(p.args)), args)
}

// appendTexts is appendNumbers for any types.
func appendTexts(p *Probe, s *sinks, args unsafe.Pointer) {
	var list [MaxArgs]uint64
	var texts [MaxArgs]string
	n, count := len(p.args), 0
	// SAFETY: a typed fire passes the addresses of variables of these types.
	for i, arg := range unsafe.Slice((*unsafe.Pointer)(args), n) {
		if t := p.args[i]; t == String {
			texts[count] = cut(*(*string)(arg))
			list[i] = uint64(len(texts[count]))
			count++
		} else {
			list[i] = words.Load(int8(t), arg)
		}
	}
	for i := range s.list {
		to, ok := &s.list[i], true
		number := atomic.LoadUint32(&to.number)
		if number == 0 || number == noNumber {
			number, ok = to.find(p)
		}
		if ok {
			to.writer.Append(number-1, list[:n], texts[:count])
		}
	}
}

// appendConverted appends a fire of the *words.Arguments a.
func appendConverted(p *Probe, s *sinks, a unsafe.Pointer) {
	// SAFETY: notify passes its arguments, which live until it returns.
	arguments := (*words.Arguments)(a)
	list := arguments.Words
	var texts [MaxArgs]string
	n, count := min(len(p.args), MaxArgs), 0
	for i, t := range p.args[:n] {
		if t == String {
			texts[count] = arguments.Texts.At(count)
			list[i] = uint64(len(texts[count]))
			count++
		}
	}
	for i := range s.list {
		to, ok := &s.list[i], true
		number := atomic.LoadUint32(&to.number)
		if number == 0 || number == noNumber {
			number, ok = to.find(p)
		}
		if ok {
			to.writer.Append(number-1, list[:n], texts[:count])
		}
	}
}

// number returns the number of a probe, as numbers has it. It adds the probe to the recording if it
// is not there.
func (s *sink) number(p *Probe) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.index >= len(s.numbers) {
		s.numbers = append(s.numbers, make([]uint32, p.index+1-len(s.numbers))...)
	}
	n := &s.numbers[p.index]
	if *n == 0 {
		if number, ok := s.writer.AddProbe(p.recorded()); ok {
			*n = number + 1
		} else {
			*n = noNumber
		}
	}
	return *n
}

// recorded describes the probe for a recording.
func (p *Probe) recorded() *recording.Probe {
	r := &recording.Probe{Provider: p.provider.name, Name: p.name}
	names := p.argNames()
	for i, t := range p.args {
		a := recording.Arg{Name: "arg" + strconv.Itoa(i), Type: int8(t), Kind: recording.Kind(p.kinds[i])}
		if names != nil {
			a.Name = names[i]
		}
		r.Args = append(r.Args, a)
	}
	return r
}

// The kinds and types of package recording are those of this package, or else this does not compile:
// neither difference may be negative.
const (
	_ = uint(KindInt64-Kind(recording.Int64)) + uint(Kind(recording.Int64)-KindInt64)
	_ = uint(KindPointer-Kind(recording.Pointer)) + uint(Kind(recording.Pointer)-KindPointer)
	_ = uint(String-recording.TypeString) + uint(recording.TypeString-String)
	_ = uint(Float32-recording.TypeFloat32) + uint(recording.TypeFloat32-Float32)
)
