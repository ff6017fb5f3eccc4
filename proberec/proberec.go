// Package proberec is a flight recorder for probes: it keeps the last events of providers in
// memory, so that a program can write, after a failure, what happened just before it.
// It needs no tracer, no root, and no Load.
//
//	var recorder = proberec.New(8<<20, probes)
//
//	func main() {
//		recorder.Start()
//		...
//		if err != nil {
//			recorder.WriteTo(file)
//		}
//	}
//
// Events are written as lines of JSON:
//
//	{"time":"2026-01-02T15:04:05.123456789Z","provider":"myapp","probe":"request__done","pid":4711,"args":{"path":"/","status":200}}
//
// time is RFC 3339 with nanoseconds, in UTC. The arguments have their names, or arg0, arg1
// and so on. Integers are numbers, durations are numbers of nanoseconds, and pointers are
// strings such as "0xc000012345". NaN and the infinities are the strings "NaN", "+Inf" and
// "-Inf". In a string, bytes that are not UTF-8 become U+FFFD.
//
// Arguments can be confidential. If they are, so is what WriteTo writes.
package proberec

import (
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/call"
)

// minBytes is the smallest size of a Recorder.
const minBytes = 4 * chunkBytes

// Recorder keeps the last events of providers. Its methods are safe for concurrent use. The
// zero Recorder has no providers.
//
// While it is started, the probes of its providers are enabled, and a fire costs about as
// much as two readings of the clock. Recording allocates nothing. Goroutines that fire at
// the same time usually do not wait for each other.
type Recorder struct {
	size      int
	providers []*stapsdt.Provider

	// state guards Start and Stop.
	state sync.Mutex
	stops []func() // while it is started

	// shards are chosen by goroutine. Their number is a power of two.
	shards []shard

	// mu guards what follows. It is locked when a chunk is full, and may be locked while a
	// shard is.
	mu      sync.Mutex
	retired []*chunk // full, the oldest first
	probes  []probe
}

// probe is a probe that has records, with what is needed to read them.
type probe struct {
	*stapsdt.Probe
	types []stapsdt.ArgType // of the arguments
	kinds []stapsdt.Kind
}

// New returns a recorder of some providers that keeps about size bytes of events, at least
// 256 KiB. An event takes 16 bytes, plus 8 bytes for each argument, plus the text and 3 bytes
// for each string. The memory is allocated by the first Start.
func New(size int, providers ...*stapsdt.Provider) *Recorder {
	return &Recorder{size: size, providers: slices.Clone(providers)}
}

// Start begins to record. It does nothing if the recorder is started.
func (r *Recorder) Start() {
	r.state.Lock()
	defer r.state.Unlock()
	if r.stops != nil {
		return
	}
	if r.shards == nil {
		r.allocate()
	}
	r.stops = []func(){}
	for _, p := range r.providers {
		r.stops = append(r.stops, p.Observe(r.record))
	}
}

// Stop ends the recording. The events stay: WriteTo writes them, and Start continues after
// them. Stop does nothing if the recorder is not started.
func (r *Recorder) Stop() {
	r.state.Lock()
	defer r.state.Unlock()
	for _, stop := range r.stops {
		stop()
	}
	r.stops = nil
}

// allocate makes the chunks and the shards. At most a quarter of the chunks are being filled,
// so that most of the memory is for the last events of all. There are more shards than
// processors, so that two busy goroutines seldom share one.
func (r *Recorder) allocate() {
	chunks := make([]chunk, max(r.size, minBytes)/chunkBytes)
	n := 1
	for 2*n <= min(len(chunks)/4, 4*runtime.GOMAXPROCS(0)) {
		n *= 2
	}
	memory := make([]byte, len(chunks)*chunkBytes)
	var retired []*chunk
	for i := range chunks {
		chunks[i].buf = memory[i*chunkBytes : (i+1)*chunkBytes]
		if i >= n {
			retired = append(retired, &chunks[i])
		}
	}
	shards := make([]shard, n)
	for i := range shards {
		shards[i].chunk, shards[i].ids = &chunks[i], map[*stapsdt.Probe]uint32{}
	}
	// WriteTo may run now.
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shards, r.retired = shards, retired
}

// record is the observer.
func (r *Recorder) record(e *stapsdt.Event) {
	g := uint64(call.Goroutine())
	s := &r.shards[g*0x9e3779b97f4a7c15>>32&uint64(len(r.shards)-1)]
	s.mu.Lock()
	if e.Probe() != s.last {
		s.know(r, e)
	}
	if !s.chunk.append(e, s.id) {
		s.chunk = r.exchange(s.chunk)
		s.chunk.append(e, s.id)
	}
	s.mu.Unlock()
}

// exchange retires a full chunk and returns an empty one, the oldest.
func (r *Recorder) exchange(full *chunk) (empty *chunk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	empty = r.retired[0]
	copy(r.retired, r.retired[1:])
	r.retired[len(r.retired)-1] = full
	empty.n = 0
	empty.generation++
	return empty
}

// shard holds the records of the goroutines that have one hash.
type shard struct {
	mu    sync.Mutex
	chunk *chunk
	last  *stapsdt.Probe // the probe of the last event, and its id
	id    uint32
	ids   map[*stapsdt.Probe]uint32

	_ [64]byte // the next shard is in another cache line
}

// know sets last and id to those of an event.
func (s *shard) know(r *Recorder, e *stapsdt.Event) {
	id, ok := s.ids[e.Probe()]
	if !ok {
		id = r.know(e)
		s.ids[e.Probe()] = id
	}
	s.last, s.id = e.Probe(), id
}

// know returns the id of an event's probe.
func (r *Recorder) know(e *stapsdt.Event) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.probes, func(p probe) bool { return p.Probe == e.Probe() })
	if i < 0 {
		i = len(r.probes)
		p := probe{Probe: e.Probe(), types: e.Probe().ArgTypes()}
		for j := range e.NumArgs() {
			p.kinds = append(p.kinds, e.Arg(j).Kind())
		}
		r.probes = append(r.probes, p)
	}
	return uint32(i)
}

// WriteTo writes the events to w, the oldest first, as lines of JSON. It neither stops the
// recording nor forgets the events. Events that are fired while it runs are missing, and may
// replace the oldest ones, which are then missing too. It returns the number of bytes written and the
// error of w, if any.
//
// WriteTo uses about as much memory as the recorder, and 40 bytes for each event.
func (r *Recorder) WriteTo(w io.Writer) (int64, error) {
	out := &countingWriter{w: w}
	err := out.write(r.snapshot())
	return out.n, err
}
