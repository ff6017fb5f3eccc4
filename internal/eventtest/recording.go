package eventtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// Read returns a reader of a recording, which has looked for its events.
func Read(t testing.TB, file io.ReaderAt) *recording.Reader {
	t.Helper()
	r, err := recording.NewReader(file)
	require.NoError(t, err)
	_, err = r.More()
	require.NoError(t, err)
	return r
}

// Events returns the events that a reader has found.
func Events(t testing.TB, r *recording.Reader) iter.Seq[*recording.Event] {
	return func(yield func(*recording.Event) bool) {
		t.Helper()
		for {
			e, err := r.Next()
			if err == io.EOF {
				return
			}
			require.NoError(t, err)
			if !yield(e) {
				return
			}
		}
	}
}

// Recording makes a recording without a writer, including lost events. Its clock is CLOCK_MONOTONIC.
type Recording struct {
	Head     recording.Head
	Realtime time.Duration // how far the time of day is ahead of the clock
	probes   []*recording.Probe
	table    []byte
	chunks   []byte
}

// Fired is an event of a Recording. Its arguments are in the words, except for texts.
type Fired struct {
	Probe *recording.Probe
	At    time.Duration
	Words []uint64
	Texts []string
}

// Probe adds a probe whose arguments are of type uint64, or texts if their names begin with "text", or
// end in ":text", which is cut.
func (r *Recording) Probe(provider, name string, args ...string) *recording.Probe {
	p := &recording.Probe{Provider: provider, Name: name}
	for _, arg := range args {
		name, isText := strings.CutSuffix(arg, ":text")
		a := recording.Arg{Name: name, Type: 8, Kind: kind.Uint64}
		if isText || strings.HasPrefix(arg, "text") {
			a.Type, a.Kind = kind.TypeString, kind.String
		}
		p.Args = append(p.Args, a)
	}
	r.probes, r.table = append(r.probes, p), p.Append(r.table)
	return p
}

// Chunk adds a chunk of a shard. before is the number of the shard's earlier events. All events are of a goroutine of process 7.
func (r *Recording) Chunk(shard uint32, before uint64, events ...Fired) {
	le := binary.LittleEndian
	b := make([]byte, recording.ChunkBytes)
	at := recording.ChunkHeadBytes
	for _, e := range events {
		record := le.AppendUint64(make([]byte, 8), uint64(e.At))
		record = le.AppendUint64(record, 5)
		for number, p := range r.probes {
			if p == e.Probe {
				le.PutUint32(record[4:], uint32(number))
			}
		}
		words, texts := e.Words, e.Texts
		for _, a := range e.Probe.Args {
			if a.Kind == kind.String {
				record, texts = le.AppendUint64(record, uint64(len(texts[0]))), texts[1:]
			} else {
				record, words = le.AppendUint64(record, words[0]), words[1:]
			}
		}
		for _, text := range e.Texts {
			record = append(append(record, text...), make([]byte, 8-len(text)%8)...)
		}
		le.PutUint32(record, uint32(len(record)))
		at += copy(b[at:], record)
	}
	le.PutUint64(b[recording.OffSequence:], uint64(len(r.chunks)/recording.ChunkBytes+1))
	le.PutUint32(b[recording.OffShard:], shard)
	le.PutUint32(b[recording.OffProcess:], 7)
	le.PutUint64(b[recording.OffBefore:], before)
	if len(events) > 0 {
		reading := recording.Reading{Ticks: uint64(events[0].At), Monotonic: int64(events[0].At), Realtime: int64(events[0].At + r.Realtime)}
		reading.Put(b[recording.OffReading:])
	}
	le.PutUint64(b[recording.OffCommitted:], uint64(at-recording.ChunkHeadBytes))
	r.chunks = append(r.chunks, b...)
}

// Bytes returns the file.
func (r *Recording) Bytes() []byte {
	h := r.Head
	h.Reading.Realtime = int64(r.Realtime)
	h.Major, h.Clock, h.Shards, h.PID, h.Executable = recording.Major, recording.Monotonic, recording.MaxShards, 7, "/bin/app"
	h.TableBytes, h.TableUsed, h.Chunks = uint64(len(r.table)), uint64(len(r.table)), uint64(len(r.chunks)/recording.ChunkBytes)
	return append(append(h.Encode(), r.table...), r.chunks...)
}

// Text returns an event as text, such as app:tick text=first n=1.
func Text(e *recording.Event) string {
	line := e.Probe.Provider + ":" + e.Probe.Name
	for i, a := range e.Probe.Args {
		if a.Kind == kind.String {
			line += fmt.Sprintf(" %s=%s", a.Name, e.Text(i))
		} else {
			line += fmt.Sprintf(" %s=%d", a.Name, int64(e.Word(i)))
		}
	}
	return line
}

// Spans returns the probes of the start and of the end of p:op, a kind of span.
func Spans() (start, end *recording.Probe) {
	r := &Recording{}
	return r.Probe("p", "op__start", "id", "parent"), r.Probe("p", "op__end", "id", "parent", "error")
}

// Event returns an event of a goroutine of process 1, whose arguments are numbers. All of its clocks have the same time.
func Event(at time.Duration, p *recording.Probe, words ...uint64) *recording.Event {
	e := &recording.Event{}
	e.Reset(p, &recording.Event{Monotonic: at, Realtime: int64(at), PID: 1, Goroutine: 1})
	for i, w := range words {
		e.Set(i, w)
	}
	return e
}
