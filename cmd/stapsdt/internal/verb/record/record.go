//go:build linux

// Package record records events that the kernel or programs deliver, in a file that survives.
package record

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Options select what is recorded, and the file.
type Options struct {
	// Path is the path of the file. Size is the number of bytes of events for which it has room.
	Path string
	Size int64
	// Limit is the number of events after which the recording ends, or 0 for none.
	Limit uint64
	// TextSize is the number of bytes of a string that are recorded, at most MaxText.
	TextSize int
	// Increments, if it is not nil, takes the recording while it is being made, as package mirror
	// sends it. The run ends if that fails.
	Increments io.Writer
}

const (
	// MaxText is the number of bytes of a string that a program can read without touching a third
	// page.
	MaxText = 4000
	// MinSize and MaxSize are the limits of Options.Size.
	MinSize = 4 * recording.ChunkBytes
	MaxSize = 16 << 30
)

// Run records events until the run ends.
func Run(ctx context.Context, to *console.Console, config query.Config, o Options) (err error) {
	switch {
	case o.Path == "":
		return query.Usagef("no file: give -O FILE")
	case o.TextSize < 1 || o.TextSize > MaxText:
		return query.Usagef("--strlen must be between 1 and %d", MaxText)
	case o.Size < MinSize || o.Size > MaxSize:
		return query.Usagef("--size must be between %d and %d bytes", MinSize, int64(MaxSize))
	case o.Limit == 0:
		o.Limit = math.MaxUint64
	}
	options := events.Options{Show: &events.Show{TextSize: o.TextSize}}
	stream, err := source.Open(to, &config, options)
	if err != nil {
		return err
	}
	defer stream.Close()
	output, err := create(to, &o, stream.Target.PIDs)
	if err != nil {
		return err
	}
	defer output.close()
	r := newConsumer(output)
	r.stream = stream
	if err := r.publish(); err != nil {
		return err
	}
	r.stream.Announce()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.send(cancel); err != nil {
		return err
	}
	if err := r.stream.Run(ctx, r); err != nil {
		return err
	}
	return r.report()
}

// consumer records events. It is an events.Consumer.
type consumer struct {
	*output
	stream *events.Stream
	probes map[*recording.Probe]*probe
	words  []uint64 // of the event, in buffers for all
	texts  []string
	// programs are the programs whose memory is read, or nil for those without a shard.
	programs map[*replay.File]*program

	unreadable uint64 // events with an argument that could not be read
	cut        uint64 // strings that were cut
	lost       uint64 // events that the source has lost, as far as the recording knows
}

func newConsumer(o *output) *consumer {
	return &consumer{
		output: o, probes: map[*recording.Probe]*probe{}, programs: map[*replay.File]*program{},
	}
}

// probe describes the recorded items of a probe's events.
type probe struct {
	number uint32 // the index in the recording
	full   bool   // the recording has no room for it
	kept   []int  // the items that are recorded
	args   []recording.Arg
}

// Know adds the probe to the table of a recording that is sent: the reader of a file can list the
// probes that have fired, but the reader of increments checks its expressions before that.
func (r *consumer) Know(p *recording.Probe) {
	if r.sending != nil {
		entry, _ := newEntry(p, nil)
		_, _ = r.number(entry) // Event reports an error
	}
}

func (r *consumer) Gone(f *replay.File) {
	if p := r.programs[f]; p != nil {
		p.shard.Release()
	}
	delete(r.programs, f)
	for _, p := range f.Recorded() {
		delete(r.probes, p)
	}
}

func (r *consumer) Tick() (next time.Duration, more bool, err error) {
	r.lose()
	return query.Rest, true, r.failed()
}

// Event records an event. It leaves out an event with an unreadable argument: a recording cannot
// represent an unknown value.
func (r *consumer) Event(e *events.Event) error {
	items, p := e.Shown.Items, r.probes[e.Probe]
	if p == nil {
		p = r.add(e.Probe, items)
	}
	if p.full {
		r.writer.Drop()
		return nil
	}
	r.words, r.texts = r.words[:0], r.texts[:0]
	var v value.Value
	for _, i := range p.kept {
		v.Set(&items[i], e.Event, i)
		text := ""
		switch {
		case v.Missing:
			r.unreadable++
			r.writer.Drop()
			return nil
		case v.Type.Kind == expr.String:
			text = string(v.Text)
			if v.Cut {
				text += "…"
				r.cut++
			}
		default:
			r.words = append(r.words, v.Bits)
			continue
		}
		r.words, r.texts = append(r.words, uint64(len(text))), append(r.texts, text)
	}
	if own := r.program(e); own != nil {
		own.append(e, p, r.words, r.texts)
	} else {
		r.writer.AppendForeign(p.number, uint64(e.Monotonic), e.PID, e.TID, r.words, r.texts)
	}
	if r.recorded++; r.recorded == r.options.Limit {
		return replay.ErrEnough
	}
	return nil
}

// add adds a probe to the recording.
func (r *consumer) add(known *recording.Probe, items []value.Item) *probe {
	p := &probe{}
	r.probes[known] = p
	var entry *recording.Probe
	entry, p.kept = newEntry(known, items)
	if left := len(items) - len(p.kept); left > 0 {
		r.Warn("%s:%s is recorded without %s that can never be read", known.Provider, known.Name, render.Number(left, "argument"))
	}
	p.args = entry.Args
	var err error
	if p.number, err = r.number(entry); err != nil {
		r.Warn("%s:%s: %v", known.Provider, known.Name, err)
		p.full = true
	}
	return p
}

// newEntry returns the entry of a probe in the table, and the arguments that are recorded. Items
// describe the arguments, or are nil.
func newEntry(known *recording.Probe, items []value.Item) (entry *recording.Probe, kept []int) {
	entry = &recording.Probe{Provider: known.Provider, Name: known.Name}
	for i, a := range known.Args {
		if (items == nil || items[i].Unreadable == nil) && len(kept) < recording.MaxArgs {
			entry.Args, kept = append(entry.Args, a), append(kept, i)
		}
	}
	return entry, kept
}

// lose adds the source's lost events to the recording.
func (r *consumer) lose() {
	if lost := r.stream.Lost(); lost > r.lost {
		r.writer.DropSome(lost - r.lost)
		r.lost = lost
	}
}

// report prints the result of the recording.
func (r *consumer) report() error {
	r.lose()
	if err := r.output.report(); err != nil {
		return err
	}
	if r.lost > 0 && r.sending == nil { // the reader of increments counts all
		r.Warn("%d other events were lost, because they came faster than they could be recorded", r.lost)
	}
	if r.unreadable > 0 {
		r.Warn("%d events are not included, because an argument could not be read", r.unreadable)
	}
	if r.cut > 0 {
		r.Warn("%s recorded as %d bytes and an ellipsis, because of --strlen", render.Number(r.cut, "longer text"), r.options.TextSize)
	}
	return r.stream.Report("", r.lost)
}
