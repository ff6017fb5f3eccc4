//go:build linux

// Package record records events that the kernel or programs deliver, in a file that survives.
package record

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
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
}

const (
	// MaxText is the number of bytes of a string that a program can read without touching a third page.
	MaxText = 4000
	// MinSize and MaxSize are the limits of Options.Size.
	MinSize = 4 * recording.ChunkBytes
	MaxSize = 16 << 30
)

// Run records events until the run ends.
func Run(ctx context.Context, to *console.Console, config run.Config, o Options) (err error) {
	switch {
	case o.Path == "":
		return console.Usagef("no file: give -O FILE")
	case o.TextSize < 1 || o.TextSize > MaxText:
		return console.Usagef("--strlen must be between 1 and %d", MaxText)
	case o.Size < MinSize || o.Size > MaxSize:
		return console.Usagef("--size must be between %d and %d bytes", MinSize, int64(MaxSize))
	case o.Limit == 0:
		o.Limit = math.MaxUint64
	}
	r := &consumer{probes: map[*recording.Probe]*probe{}}
	if r.stream, err = events.Open(to, &config, events.Options{Show: &events.Show{TextSize: o.TextSize}}); err != nil {
		return err
	}
	defer r.stream.Close()
	if r.output, err = create(to, &o, config.PIDs); err != nil {
		return err
	}
	defer r.close()
	if err := r.publish(); err != nil {
		return err
	}
	r.stream.Announce()
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

	unreadable uint64 // events with an argument that could not be read
	cut        uint64 // strings of which only the beginning is recorded
	lost       uint64 // events that the source has lost, as far as the recording knows
}

// probe describes the recorded items of a probe's events.
type probe struct {
	number uint32 // the index in the recording
	full   bool   // the recording has no room for it
	kept   []int  // the items that are recorded
}

func (r *consumer) Know(*recording.Probe) {}

func (r *consumer) Gone(*replay.File) {}

func (r *consumer) Tick() (next time.Duration, more bool, err error) {
	r.lose()
	return engine.Rest, true, r.failed()
}

// Event records an event. It leaves out an event with an unreadable argument: a recording cannot say that a value is unknown.
func (r *consumer) Event(e *events.Event) error {
	items, p := e.Items(), r.probes[e.Probe]
	if p == nil {
		p = r.add(e.Probe, items)
	}
	if p.full {
		r.writer.Drop()
		return nil
	}
	r.words, r.texts = r.words[:0], r.texts[:0]
	for _, i := range p.kept {
		v := e.Value(i)
		text := ""
		switch {
		case v.Missing:
			r.unreadable++
			r.writer.Drop()
			return nil
		case items[i].Names != nil:
			text = items[i].Names.NameOf(v.Bits)
		case items[i].Type.Kind == expr.String:
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
	r.writer.AppendForeign(p.number, uint64(e.Monotonic), e.PID, e.TID, r.words, r.texts)
	if r.recorded++; r.recorded == r.options.Limit {
		return live.ErrEnough
	}
	return nil
}

// add adds a probe to the recording.
func (r *consumer) add(known *recording.Probe, items []layout.Item) *probe {
	p := &probe{}
	r.probes[known] = p
	entry := &recording.Probe{Provider: known.Provider, Name: known.Name}
	for i := range items {
		if items[i].Unreadable == nil && len(p.kept) < recording.MaxArgs {
			entry.Args, p.kept = append(entry.Args, events.ArgOf(&items[i])), append(p.kept, i)
		}
	}
	if left := len(items) - len(p.kept); left > 0 {
		r.Warn("%s:%s is recorded without %s that can never be read", known.Provider, known.Name, render.Number(left, "argument"))
	}
	var err error
	if p.number, err = r.number(entry); err != nil {
		r.Warn("%s:%s: %v", known.Provider, known.Name, err)
		p.full = true
	}
	return p
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
	if r.lost > 0 {
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

// output is the file to which events are recorded.
type output struct {
	*console.Console
	options   *Options
	file      *recordfile.File
	writer    *recorder.Writer
	published bool              // the file has its name
	numbers   map[string]uint32 // the indexes of probes, by their entries in the table
	recorded  uint64
}

// create creates the file for the events of processes, or of all processes if pids is empty.
func create(to *console.Console, options *Options, pids []int) (o *output, err error) {
	o = &output{Console: to, options: options, numbers: map[string]uint32{}}
	if fd, open := descriptor(options.Path); open {
		o.file, err = recordfile.Use(fd, options.Size)
		o.published = true // the file has no name
	} else {
		o.file, err = recordfile.Create(options.Path, options.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("-O %s: %w", options.Path, err)
	}
	w := recorder.Options{Foreign: true}
	recordfile.Describe(&w.Head)
	w.Head.Executable, w.Head.Start = "", 0
	if len(pids) == 1 {
		w.Head.PID = uint32(pids[0])
		w.Head.Executable, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", pids[0]))
	}
	o.writer = recorder.New(o.file.Memory, o.file.Chunks, w)
	return o, nil
}

// descriptor returns the open file that a path such as /dev/fd/3 stands for.
func descriptor(path string) (fd int, ok bool) {
	digits, ok := strings.CutPrefix(path, "/dev/fd/")
	fd, err := strconv.Atoi(digits)
	return fd, ok && err == nil
}

// publish gives the file its name. Until then, an earlier recording has it.
func (o *output) publish() error {
	path := o.options.Path
	if o.published {
		return nil
	}
	if err := o.file.Publish(path); err != nil {
		return fmt.Errorf("-O %s: %w", path, err)
	}
	o.published = true
	if o.file.Path != path {
		o.Warn("%s is a file of another process or another user, so this is recorded to %s", path, o.file.Path)
	}
	if o.file.Previous != "" {
		o.Warn("the earlier recording %s is called %s now", path, o.file.Previous)
	}
	if o.file.Removed != "" {
		o.Warn("%s is removed, because there were more than %d earlier recordings", o.file.Removed, recordfile.Keep)
	}
	return nil
}

// number returns the index of a probe in the file.
func (o *output) number(entry *recording.Probe) (number uint32, err error) {
	key := string(entry.Append(nil))
	number, ok := o.numbers[key]
	if !ok {
		if number, ok = o.writer.AddProbe(entry); !ok {
			return 0, errors.New("the recording has no room for its name; a larger --size has more")
		}
		o.numbers[key] = number
	}
	return number, nil
}

// failed returns an error if the recording has ended.
func (o *output) failed() error {
	if o.writer.Failed() {
		return fmt.Errorf("%s: the recording has ended, because the file was truncated or its disk failed", o.file.Path)
	}
	return nil
}

// report prints the number of events in the recording.
func (o *output) report() error {
	o.writer.Close()
	reader, err := recording.NewReader(o.file.File)
	if err == nil {
		_, err = reader.More()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.file.Path, err)
	}
	to := ""
	if o.file.Path != "" {
		to = " to " + o.file.Path
	}
	o.Warn("recorded %s%s", render.Number(o.recorded, "event"), to)
	if oldest := reader.Lost() - o.writer.Dropped(); oldest > 0 {
		o.Warn("the oldest %d of them were dropped, because the file has room for %d bytes: see --size", oldest, o.options.Size)
	}
	return nil
}

// close closes the file, and removes it if it has no name.
func (o *output) close() {
	o.writer.Close()
	if !o.published {
		_ = os.Remove(o.file.Path)
	}
	_ = o.file.Close()
}
