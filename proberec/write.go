package proberec

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventjson"
)

// part is the events of a chunk at some moment.
type part struct {
	chunk      *chunk
	n          int // the bytes in use
	generation uint64
}

// parts returns what the recorder holds, the oldest first, as of one moment: recording waits
// for it. What is recorded later follows a part in its chunk, or makes another generation of
// the chunk.
func (r *Recorder) parts() []part {
	r.mu.Lock()
	shards := r.shards
	r.mu.Unlock()
	if shards == nil {
		return nil // it was never started
	}
	for i := range shards {
		s := &shards[i]
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []part
	for _, c := range r.retired {
		parts = append(parts, part{c, c.n, c.generation})
	}
	for i := range shards {
		c := shards[i].chunk
		parts = append(parts, part{c, c.n, c.generation})
	}
	return parts
}

// copies returns copies of the parts that still exist. A chunk may be emptied before it is
// copied. Such chunks are the oldest, and so the newest are copied first: then no event is
// missing between others.
func (r *Recorder) copies(parts []part) [][]byte {
	list := make([][]byte, len(parts))
	for i, p := range slices.Backward(parts) {
		r.mu.Lock() // for each chunk, because a goroutine that fires may wait for it
		if p.chunk.generation == p.generation {
			list[i] = bytes.Clone(p.chunk.buf[:p.n])
		}
		r.mu.Unlock()
	}
	return list
}

// decode returns the records of chunks, in order of their times.
func decode(chunks [][]byte) (records []record) {
	for _, b := range chunks {
		for len(b) > 0 {
			size := binary.LittleEndian.Uint32(b)
			records = append(records, record{
				probe: binary.LittleEndian.Uint32(b[4:]),
				time:  time.Duration(binary.LittleEndian.Uint64(b[8:])),
				args:  b[headBytes:size],
			})
			b = b[size:]
		}
	}
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.time, b.time) })
	return records
}

// snapshot returns copies of the records, and the probes.
func (r *Recorder) snapshot() ([]record, []probe) {
	records := decode(r.copies(r.parts()))
	r.mu.Lock()
	defer r.mu.Unlock()
	return records, slices.Clone(r.probes)
}

// record is a decoded record, but for its arguments.
type record struct {
	probe uint32
	time  time.Duration
	args  []byte
}

// appendJSON appends a record as JSON and a newline.
func (rec *record) appendJSON(dst []byte, enc *eventjson.Encoder, p probe) []byte {
	dst = enc.Begin(dst, p.Probe, rec.time)
	ends := rec.args[8*len(p.kinds):]
	texts := ends[2*p.strings():]
	at := 0
	for i, kind := range p.kinds {
		dst = enc.Field(dst, p.Probe, i)
		if kind == stapsdt.KindString {
			end := int(binary.LittleEndian.Uint16(ends))
			dst = eventjson.AppendString(dst, string(texts[at:end]))
			ends, at = ends[2:], end+1
			continue
		}
		word := binary.LittleEndian.Uint64(rec.args[8*i:])
		if p.types[i] == stapsdt.Float32 {
			word = math.Float64bits(float64(math.Float32frombits(uint32(word))))
		}
		dst = eventjson.AppendNumber(dst, kind, word)
	}
	return append(dst, "}}\n"...)
}

// strings returns the number of the probe's strings.
func (p *probe) strings() (n int) {
	for _, kind := range p.kinds {
		if kind == stapsdt.KindString {
			n++
		}
	}
	return n
}

// countingWriter writes records to w, and counts their bytes.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) write(records []record, probes []probe) error {
	enc := eventjson.NewEncoder()
	var lines []byte
	for i, rec := range records {
		lines = rec.appendJSON(lines, enc, probes[rec.probe])
		if len(lines) < 32<<10 && i < len(records)-1 {
			continue
		}
		n, err := c.w.Write(lines)
		c.n += int64(n)
		if err != nil {
			return err
		}
		lines = lines[:0]
	}
	return nil
}
