package recorder

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// Sink appends the fires of probes to a recording: sink.Record takes it.
type Sink struct {
	Writer *Writer
	// Selects reports whether the recording has a probe. A nil Selects selects every probe.
	Selects func(provider, probe string) bool
}

// probe appends the fires of a probe to a recording. The types of Probe below embed it, or are it.
type probe struct {
	shape
	writer   *Writer
	describe func() (*recording.Probe, bool)
	full     atomic.Bool // whether the recording has no room for the probe
}

// plain is a probe whose fires need neither a time that is passed nor a check for faults: the
// recording's memory cannot fail.
type plain struct{ probe }

// checked is a probe whose fires need no time that is passed. The recording's memory can fail.
type checked struct{ probe }

// clocked is a probe whose fires need a time that is passed, because the processor's counter is no
// clock.
type clocked struct{ probe }

// times is a probe with times, which it converts for one of the others.
type times struct {
	sink.Probe
	n     int   // of arguments
	times []int // the arguments that are times
}

// Probe implements sink.Sink.
func (s *Sink) Probe(describe func() (p *recording.Probe, named bool)) sink.Probe {
	described, named := describe()
	if s.Selects != nil && !s.Selects(described.Provider, described.Name) {
		return nil
	}
	all := &probe{shape: shapeOf(s.Writer, described.Args), writer: s.Writer, describe: describe}
	var moments []int
	for i, a := range described.Args {
		if a.Kind == kind.Time {
			moments = append(moments, i)
		}
	}
	if named {
		all.add()
	}
	p := all.quickest()
	if moments != nil {
		return &times{p, len(described.Args), moments}
	}
	return p
}

// quickest returns what appends the fires of the probe in the shortest time.
func (p *probe) quickest() sink.Probe {
	w := p.writer
	// SAFETY: these types are structs of a probe alone.
	switch {
	case !w.hasSlots:
		return p
	case !w.clock.useCounter:
		return (*clocked)(unsafe.Pointer(p))
	case w.cannotFail:
		return (*plain)(unsafe.Pointer(p))
	}
	return (*checked)(unsafe.Pointer(p))
}

// known reports whether the probe has a number in the recording, which it adds it to. If the
// recording has no room for the probe, known counts the event as lost.
func (p *probe) known() bool {
	if atomic.LoadUint64(&p.head) == 0 && !p.full.Load() {
		p.add()
	}
	if p.full.Load() {
		p.writer.Drop()
		return false
	}
	return true
}

// add adds the probe to the recording.
func (p *probe) add() {
	described, _ := p.describe()
	if number, ok := p.writer.AddProbe(described); ok {
		p.setNumber(number)
	} else {
		p.full.Store(true)
	}
}

// Append implements sink.Probe.
func (p *plain) Append(args unsafe.Pointer) {
	if !write(&p.shape, args, nil) {
		p.probe.Append(args)
	}
}

// Append implements sink.Probe.
func (p *checked) Append(args unsafe.Pointer) {
	var f fire
	f.done, f.fault = 0, 0
	defer func() {
		if f.done != 1 {
			p.writer.faulted(&f, recover())
		}
	}()
	if !write(&p.shape, args, &f) {
		f.done = 1
		p.probe.Append(args)
	}
}

// Append implements sink.Probe.
func (p *clocked) Append(args unsafe.Pointer) {
	var f fire
	f.done, f.fault = 0, 0
	defer func() {
		if f.done != 1 {
			p.writer.faulted(&f, recover())
		}
	}()
	now, real := clock.Read()
	f.now = uint64(now)
	if !real || !write(&p.shape, args, &f) {
		f.done = 1
		p.probe.Append(args)
	}
}

// Append implements sink.Probe.
func (p *probe) Append(args unsafe.Pointer) {
	if p.known() {
		p.writer.append(&p.shape, args)
	}
}

// AppendConverted implements sink.Probe.
func (p *probe) AppendConverted(a *words.Arguments) {
	if !p.known() {
		return
	}
	s := p.shape.converted()
	var variables [recording.MaxArgs]unsafe.Pointer
	var texts [recording.MaxArgs]string
	count := 0
	for i := range s.n {
		if s.loads[i] == kind.TypeString {
			texts[count] = a.Texts.At(count)
			variables[i] = unsafe.Pointer(&texts[count])
			count++
		} else {
			variables[i] = unsafe.Pointer(&a.Words[i])
		}
	}
	p.writer.append(&s, words.NoEscape(unsafe.Pointer(&variables)))
}

// Append implements sink.Probe.
func (p *times) Append(args unsafe.Pointer) {
	var variables [recording.MaxArgs]unsafe.Pointer
	var moments [recording.MaxArgs]int64
	// SAFETY: the caller passes the addresses of as many variables.
	copy(variables[:], unsafe.Slice((*unsafe.Pointer)(args), p.n))
	for _, i := range p.times {
		// SAFETY: the i-th variable is a time.Time.
		moments[i] = kind.FromTime(*(*time.Time)(variables[i]))
		variables[i] = unsafe.Pointer(&moments[i])
	}
	p.Probe.Append(words.NoEscape(unsafe.Pointer(&variables)))
}
