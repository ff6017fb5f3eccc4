package recording

import (
	"cmp"
	"io"
	"math"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording/barrier"
)

// Reader reads the events of a recording, the oldest first. The recording may be written
// meanwhile, by this process or another. A Reader has at most one chunk of each shard in memory.
// It is not safe for concurrent use.
//
// More finds events, and Next returns them, as often as the writer goes on.
type Reader struct {
	src    source
	head   Head
	probes []*Probe
	used   uint64 // the bytes of the table that were read
	shards []shard
	// active are the shards whose rest has an event, in the order of their times.
	active []*shard
	// lapped are the shards whose newest chunk was reused before it was read, so that their lost
	// events are unknown.
	lapped map[*shard]bool
	taken  bool // event is the first event of the first active shard
	rate   rate
	event  Event
	takers []taker // by the numbers of the probes, for Each
	// process is the process of all events, or nil if the recording states it.
	process *Process
	// chunks are the heads of all chunks as they were read last. readings is a buffer of find, kept
	// for the next call.
	chunks   []knownChunk
	quiet    int      // counts the calls of isQuiet
	latest   uint64   // the word at OffLatest before the heads of all chunks were read last
	current  []uint64 // the indexes of the chunks whose shards may append to them
	still    bool     // nothing was committed since passed was computed
	passed   uint64   // see Position
	behind   bool     // findParts has left out a chunk that is newer than those of its first look
	readings []Reading
	// the time by CLOCK_MONOTONIC of the latest reading from which the rate was learned
	learned int64
	until   time.Duration // a time by CLOCK_MONOTONIC: Next returns no later event
	window  *window       // as Within has set it, or nil
	// whole is the time from which on no event is missing, by CLOCK_MONOTONIC and CLOCK_REALTIME,
	// and hole the number of events that are missing before it and were not counted in missing yet.
	whole   time.Duration
	wholeAt int64
	hole    uint64
	missing Missing
	// unplaced is the number of events that had found no room when the recording was opened, at
	// unknown times. drops are those of known times, later than the events that were read.
	unplaced uint64
	drops    []drop
	began    bool // Next has returned an event
}

// Missing counts missing events, which were committed or had no room: before the first event that
// Next has returned, between two of its events, after the last one, and at unknown times.
type Missing struct {
	Before, Between, After, Unplaced uint64
	// Until is the time by CLOCK_REALTIME from which on no events of Before and Between are
	// missing, or 0.
	Until int64
}

// shard is the Reader's state of a shard.
type shard struct {
	next    uint64  // the number of the shard's events that were seen or lost
	lost    uint64  // the number of them that were lost
	gap     uint64  // the number of them that were lost directly before the next event
	at      place   // the place that was read last; the Reader continues at its from
	reading Reading // the latest Reading before the next record
	until   Reading // the Reading after it, or zeros if there is none yet
	newest  uint64  // the sequence number of its newest chunk, as far as findParts has to look
	last    [2]int  // the indexes of its newest chunk and of the one before it, or -1
	unread  int     // the number of chunks that are newer than at
	begun   uint64  // the sequence number of its newest chunk before the heads are looked at
	pending []place // the places that More has found, in their order
	buf     []byte  // records that were read
	rest    []byte  // the rest of buf
	after   int     // the bytes of rest from the next reading of the clocks on
	first   record  // the first record of rest, if it is an event
	perTick float64 // the nanoseconds that a tick takes between reading and until
}

// place is a part of a chunk that holds records of a shard.
type place struct {
	index     uint64
	chunkHead        // as it was found; the part ends at the end of its committed records
	from      uint64 // where the part begins
}

// NewReader returns a Reader of a recording whose head and table of probes it has read.
func NewReader(file io.ReaderAt) (*Reader, error) { return NewPart(file, math.MaxInt64) }

// NewLive is NewReader for the memory to which a program appends. It does not look at chunks that
// were never used: each look would allocate a page.
func NewLive(memory io.ReaderAt) (*Reader, error) {
	r, err := NewReader(memory)
	if err == nil {
		r.src.live = r.head.Minor >= latestMinor
	}
	return r, err
}

// NewPart is NewReader for a file of a size, which may lack the end of the recording: whole records
// are read. See [Reader.Cut].
func NewPart(file io.ReaderAt, size int64) (*Reader, error) {
	if size < HeadBytes {
		return nil, corrupt("it has %d bytes", size)
	}
	head, err := readHead(file)
	if err != nil {
		return nil, err
	}
	if size < head.ChunkOffset(0) {
		return nil, corrupt("it has %d of %d bytes", size, head.Size())
	}
	r := &Reader{
		head: *head, unplaced: head.Dropped, shards: make([]shard, head.Shards),
		lapped: map[*shard]bool{},
	}
	r.src = source{file: file, head: &r.head, size: size}
	return r, r.readTable()
}

func readHead(file io.ReaderAt) (*Head, error) {
	b := make([]byte, HeadBytes)
	if err := readFull(file, b, 0); err != nil {
		return nil, err
	}
	return DecodeHead(b)
}

// Process is a process, as the reader of its recording knows it. If the PID is 0, only the pod is
// known.
type Process struct {
	PID        uint32
	Executable string
	Pod        *Pod
}

// SetProcess sets the process of all events, whatever the recording states, as far as it is known.
func (r *Reader) SetProcess(p *Process) { r.process = p }

// Head returns the recording's head, as it was when it was last read.
func (r *Reader) Head() *Head { return &r.head }

// Probes returns the probes that were known when the table was last read, by their numbers.
func (r *Reader) Probes() []*Probe { return r.probes }

// Lost returns the number of events that Next has not returned and will not return, because
// later events replaced them or because there was no room for them.
func (r *Reader) Lost() uint64 {
	lost := r.head.Dropped
	for i := range r.shards {
		lost += r.shards[i].lost
	}
	return lost
}

// Origins reports whether the chunks that were found have the threads of their events, and whether
// some have the goroutines.
func (r *Reader) Origins() (threads, goroutines bool) {
	for i := range r.chunks {
		if c := &r.chunks[i]; c.sequence != 0 {
			threads, goroutines = threads || c.process == 0, goroutines || c.process != 0
		}
	}
	return threads, goroutines
}

// Position returns the number of events that Next has returned or that were lost in their shards,
// and whether more events are known, which Next will return after a later MoreUntil.
func (r *Reader) Position() (passed uint64, more bool) {
	if !r.still {
		r.passed = 0
		for i := range r.shards {
			r.passed += r.shards[i].next
		}
	}
	return r.passed, len(r.active) > 0
}

// Cut returns the sizes of the file and of the recording if the file lacks the end, and otherwise 0
// and 0.
func (r *Reader) Cut() (size, whole int64) {
	if r.src.size >= r.head.Size() {
		return 0, 0
	}
	return r.src.size, r.head.Size()
}

// Missing returns the places at which the events of Lost are missing.
func (r *Reader) Missing() Missing {
	m := r.missing
	m.After, m.Unplaced = r.hole, r.unplaced
	for _, d := range r.drops {
		m.After += d.events
	}
	return m
}

// Whole reports whether an event that Next has returned is later than all events that were lost at
// a known time.
func (r *Reader) Whole(e *Event) bool { return e.Monotonic >= r.whole }

// Keeps reports whether the recording has every event from a time on, by CLOCK_MONOTONIC. It allows
// for the differences between the times of shards.
func (r *Reader) Keeps(since time.Duration) bool {
	whole, _ := r.wholeSince()
	return r.isPlaced() && (whole == 0 || since-whole >= skew)
}

// isPlaced reports whether it is known where events are missing.
func (r *Reader) isPlaced() bool {
	size, _ := r.Cut()
	return size == 0 && r.unplaced == 0 && len(r.lapped) == 0
}

// Since returns the times by CLOCK_MONOTONIC and CLOCK_REALTIME from which on the recording has
// every event. ok is false if there is none.
func (r *Reader) Since() (since time.Duration, realtime int64, ok bool) {
	whole, at := r.wholeSince()
	if begin := r.head.Reading; whole == 0 {
		return time.Duration(begin.Monotonic), begin.Realtime, r.isPlaced()
	}
	return whole + skew, at + int64(skew), r.isPlaced()
}

// wholeSince returns the time from which on no event is missing of those whose times are known, by
// CLOCK_MONOTONIC and CLOCK_REALTIME.
func (r *Reader) wholeSince() (time.Duration, int64) {
	if n := len(r.drops); n > 0 {
		last := r.drops[n-1].until
		if at := time.Duration(last.Monotonic); at > r.whole {
			return at, last.Realtime
		}
	}
	return r.whole, r.wholeAt
}

// skew exceeds the difference between the times of two shards, which is the time of reading two
// clocks.
const skew = time.Millisecond

// miss counts events that a shard has lost before a moment.
func (r *Reader) miss(s *shard, ticks uint64) {
	if s.gap == 0 {
		return
	}
	if at, realtime := r.convert(s, ticks); at > r.whole {
		r.whole, r.wholeAt = at, realtime
	}
	r.hole, s.gap = r.hole+s.gap, 0
}

// readTable reads the head again, and the entries that were added to the table.
func (r *Reader) readTable() error {
	head, err := readHead(r.src.file)
	if err != nil {
		return err
	}
	if head.TableBytes != r.head.TableBytes || head.Chunks != r.head.Chunks ||
		head.Shards != r.head.Shards ||
		head.TableUsed < r.used {
		return corrupt("its head has changed")
	}
	// they were dropped a moment ago
	if more := head.Dropped - r.head.Dropped; more > 0 && more <= head.Dropped {
		r.hole, r.whole, r.wholeAt = r.hole+more, max(r.whole, clock.Now()), time.Now().UnixNano()
	}
	r.head = *head
	barrier.Load()
	table := make([]byte, head.TableUsed-r.used)
	if err := readFull(r.src.file, table, HeadBytes+int64(r.used)); err != nil {
		return err
	}
	added, err := DecodeProbes(table)
	if err != nil {
		return err
	}
	r.probes, r.used = append(r.probes, added...), head.TableUsed
	return nil
}

// More finds the events that have been committed since it was called last, and reports whether
// there are any that Next has not returned.
func (r *Reader) More() (bool, error) {
	r.until = math.MaxInt64
	if err := r.advance(); err != nil {
		return false, err
	}
	return r.find()
}

// MoreUntil is More, but until the next call, Next returns no event later than until, by
// CLOCK_MONOTONIC. An event is committed a moment after its time: if until is a little before the
// present, the events of all calls are in the order of their times. The recording must be memory
// that its writer shares, not a file, of which a failure of the power may have left an older head.
// If it is not thorough, it may leave events that a writer of an early version has committed after
// a silence to the next calls, and takes less time.
func (r *Reader) MoreUntil(until time.Duration, thorough bool) (bool, error) {
	r.until = until
	if err := r.advance(); err != nil {
		return false, err
	}
	if len(r.active)+len(r.lapped) == 0 {
		quiet, err := r.isQuiet(thorough)
		if quiet && !r.still {
			r.Position()
			r.still = true
		}
		if quiet || err != nil {
			return false, err
		}
	}
	return r.find()
}

// find finds the committed events, and reports whether there is one that Next may return.
func (r *Reader) find() (bool, error) {
	r.still = false
	if err := r.readTable(); err != nil {
		return false, err
	}
	const most = 4 // a writer hardly overtakes so often a reader that has just looked
	for range most {
		if err := r.findAll(); err != nil {
			return false, err
		}
		if len(r.lapped) == 0 {
			break
		}
	}
	slices.SortStableFunc(r.active, func(a, b *shard) int {
		return cmp.Compare(a.first.ticks, b.first.ticks)
	})
	return r.ready(), nil
}

// findAll finds the committed events, and makes each shard that has events active.
func (r *Reader) findAll() error {
	if err := r.findParts(); err != nil {
		return err
	}
	for i := range r.shards {
		s := &r.shards[i]
		if slices.Contains(r.active, s) {
			continue
		}
		ok, err := r.fill(s)
		if err != nil {
			return err
		}
		if ok {
			r.active = append(r.active, s)
		}
	}
	return nil
}

// ready reports whether there is an event that Next may return.
func (r *Reader) ready() bool {
	if len(r.active) == 0 || r.until == math.MaxInt64 {
		return len(r.active) > 0
	}
	s := r.active[0]
	at, _ := r.convert(s, s.first.ticks)
	return at <= r.until
}

// fill makes rest begin with the shard's next event, and reports whether one was found.
func (r *Reader) fill(s *shard) (ok bool, err error) {
	for {
		if ok, err = r.skip(s); ok || err != nil {
			r.miss(s, s.first.ticks)
			return ok, err
		}
		if len(s.pending) == 0 {
			r.miss(s, s.reading.Ticks)
			return false, nil
		}
		if r.window != nil {
			r.passOver(s)
		}
		p := s.pending[0]
		s.pending = s.pending[1:]
		if err := r.enter(s, p); err != nil {
			return false, err
		}
	}
}

// enter reads a part of a chunk, unless the chunk has been reused meanwhile: then the shard's
// next chunk shows the gap.
func (r *Reader) enter(s *shard, p place) error {
	b, ok, err := r.src.records(s.buf[:0], p)
	if err != nil {
		return err
	}
	if !ok {
		r.lapped[s] = true
		return nil
	}
	delete(r.lapped, s)
	if p.from == 0 {
		if p.before < s.next {
			return corrupt("two chunks have event %d of shard %d", p.before, p.shard)
		}
		s.lost, s.gap = s.lost+p.before-s.next, s.gap+p.before-s.next
		s.next = p.before
		s.reading = p.reading
	}
	p.from = p.committed
	if s.at, s.buf, s.rest = p, b, b; p.cut {
		s.rest = wholeRecords(b)
	}
	r.lookAhead(s)
	return nil
}

// lookAhead finds the Reading after the present one, in the rest or where the next chunk begins.
// Times by CLOCK_MONOTONIC need only the present one.
func (r *Reader) lookAhead(s *shard) {
	if r.head.Clock != Counter {
		s.after = 0
		return
	}
	s.until = s.nextReading()
	s.perTick = r.rate.between(s.reading, s.until)
}

func (s *shard) nextReading() Reading {
	b := s.rest
	for s.after = len(b); len(b) > 0; s.after = len(b) {
		rec, ok := recordAt(b)
		if !ok {
			return Reading{} // skip reports it
		}
		if reading, ok := rec.reading(b); ok {
			return reading
		}
		b = b[rec.size:]
	}
	if len(s.pending) > 0 && s.pending[0].from == 0 {
		return s.pending[0].reading
	}
	return Reading{}
}

// skip takes readings of the clocks from the beginning of rest, and reports whether an event
// follows.
func (r *Reader) skip(s *shard) (ok bool, err error) {
	for len(s.rest) > 0 {
		if s.first, ok = recordAt(s.rest); !ok {
			return false, notRecord(s.rest)
		}
		if s.first.number <= maxProbe {
			return true, nil
		}
		reading, isReading := s.first.reading(s.rest)
		s.rest = s.rest[s.first.size:]
		if isReading {
			s.reading = reading
			r.lookAhead(s)
		}
	}
	return false, nil
}
