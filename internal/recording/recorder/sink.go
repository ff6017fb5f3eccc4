package recorder

import (
	"sync/atomic"
	"time"
	"unsafe"

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

// probe appends the fires of a probe to a recording. The types that read the variables of typed probes embed it.
type probe struct {
	writer *Writer
	// number is the probe's number in the recording plus 1, 0 if it is not known yet, or noNumber.
	number   atomic.Uint32
	types    []int8
	describe func() (*recording.Probe, bool)
}

// numbers is a probe without strings: the assembly reads its variables.
type numbers struct{ probe }

// texts is a probe with strings.
type texts struct{ probe }

// times is a probe with times, which it converts for one of the others.
type times struct {
	sink.Probe
	n     int   // of arguments
	times []int // the arguments that are times
}

// noNumber is the number of a probe for which the recording has no room.
const noNumber = ^uint32(0)

// Probe implements sink.Sink.
func (s *Sink) Probe(describe func() (p *recording.Probe, named bool)) sink.Probe {
	described, named := describe()
	if s.Selects != nil && !s.Selects(described.Provider, described.Name) {
		return nil
	}
	all := &texts{probe{writer: s.Writer, describe: describe}}
	hasTexts := false
	var moments []int
	for i, a := range described.Args {
		all.types = append(all.types, a.Type)
		hasTexts = hasTexts || a.Type == kind.TypeString
		if a.Kind == kind.Time {
			moments = append(moments, i)
		}
	}
	if named {
		all.add()
	}
	var p sink.Probe = all
	if !hasTexts {
		p = (*numbers)(all)
	}
	if moments != nil {
		return &times{p, len(all.types), moments}
	}
	return p
}

// known returns the probe's number in the recording plus 1, or the result of find.
func (p *probe) known() uint32 {
	if number := p.number.Load(); number-1 < noNumber-1 {
		return number
	}
	return p.find()
}

// find adds the probe to the recording if it is not there, and returns its number plus 1. It returns 0, and counts the
// event as lost, if the recording has no room for the probe.
//
//go:noinline
func (p *probe) find() uint32 {
	if p.number.Load() == 0 {
		p.add()
	}
	number := p.number.Load()
	if number == noNumber {
		p.writer.Drop()
		return 0
	}
	return number
}

// add adds the probe to the recording.
func (p *probe) add() {
	described, _ := p.describe()
	number, ok := p.writer.AddProbe(described)
	if number++; !ok {
		number = noNumber
	}
	p.number.Store(number)
}

// Append implements sink.Probe.
func (p *numbers) Append(args unsafe.Pointer) {
	number := p.known()
	if number == 0 {
		return
	}
	w, n := p.writer, uint64(len(p.types))
	var r record
	r.head = uint64(number-1)<<32 + recording.RecordHeadBytes + 8*n
	r.n, r.words, r.types = n, args, unsafe.Pointer(unsafe.SliceData(p.types))
	r.count, r.texts, r.done, r.fault = 0, nil, 0, 0
	defer w.check(&r)
	if now, ok := w.now(); !ok || !write(&w.at, &r, now) {
		w.appendSlowly(&r)
	}
	r.done = 1
}

// AppendConverted implements sink.Probe.
func (p *numbers) AppendConverted(a *words.Arguments) {
	number := p.known()
	if number == 0 {
		return
	}
	p.writer.Append(number-1, a.Words[:len(p.types)], nil)
}

// Append implements sink.Probe.
func (p *texts) Append(args unsafe.Pointer) {
	number := p.known()
	if number == 0 {
		return
	}
	var list [recording.MaxArgs]uint64
	var texts [recording.MaxArgs]string
	count := 0
	// SAFETY: the caller passes the addresses of variables of these types.
	for i, arg := range unsafe.Slice((*unsafe.Pointer)(args), len(p.types)) {
		if t := p.types[i]; t == kind.TypeString {
			text := *(*string)(arg)
			texts[count] = text[:min(len(text), recording.MaxText)]
			list[i] = uint64(len(texts[count]))
			count++
		} else {
			list[i] = words.Load(t, arg)
		}
	}
	p.writer.Append(number-1, list[:len(p.types)], texts[:count])
}

// AppendConverted implements sink.Probe.
func (p *texts) AppendConverted(a *words.Arguments) {
	number := p.known()
	if number == 0 {
		return
	}
	list := a.Words
	var texts [recording.MaxArgs]string
	count := 0
	for i, t := range p.types {
		if t == kind.TypeString {
			texts[count] = a.Texts.At(count)
			list[i] = uint64(len(texts[count]))
			count++
		}
	}
	p.writer.Append(number-1, list[:len(p.types)], texts[:count])
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
