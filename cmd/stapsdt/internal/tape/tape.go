//go:build linux

// Package tape records events that the kernel delivers, in a file that survives.
package tape

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recordfile"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/cilium/ebpf"
)

// Options say what is recorded, and where.
type Options struct {
	// Path is that of the file, and Size how many bytes of events it has room for.
	Path string
	Size int64
	// Limit is the number of events after which the recording ends, or 0 for none.
	Limit uint64
	// TextSize is how many bytes of a text are recorded, at most MaxText.
	TextSize int
}

const (
	// MaxText is what a program can read of a text without touching a third page.
	MaxText = 4000
	// MinSize and MaxSize are those of Options.Size.
	MinSize = 4 * recording.ChunkBytes
	MaxSize = 16 << 30
	// ringSize holds what two threads fire in a tenth of a second.
	ringSize = 16 << 20
)

// Run records events until the run ends.
func Run(ctx context.Context, to *console.Console, config run.Config, o Options) (err error) {
	switch {
	case o.Path == "":
		return usage.Errorf("no file: give -O FILE")
	case o.TextSize < 1 || o.TextSize > MaxText:
		return usage.Errorf("--strlen must be between 1 and %d", MaxText)
	case o.Size < MinSize || o.Size > MaxSize:
		return usage.Errorf("--size must be between %d and %d bytes", MinSize, int64(MaxSize))
	case o.Limit == 0:
		o.Limit = math.MaxUint64
	}
	r, err := run.New(to, config)
	if err != nil {
		return err
	}
	defer r.Close()
	t := &tape{options: &o, run: r}
	if err := t.open(); err != nil {
		return err
	}
	defer t.close()
	if err := r.Attach(t); err != nil {
		return err
	}
	if err := t.publish(); err != nil {
		return err
	}
	r.Announce()
	if err := r.Wait(ctx, t); err != nil {
		return err
	}
	if err := t.drain(); err != nil {
		return err
	}
	return t.report()
}

// tape is a recording of events of the kernel. It is an engine.Subscriber and an engine.Consumer.
type tape struct {
	options   *Options
	run       *run.Run
	ring      *ebpf.Map
	stream    *event.Stream
	file      *recordfile.File
	writer    *recorder.Writer
	published bool              // the file has its name
	numbers   map[string]uint32 // by the entries of the table
	probes    []*probe          // by the numbers of the programs

	words      []uint64
	texts      []string
	recorded   uint64
	unreadable uint64 // events with an argument that could not be read
	lost       uint64 // by the kernel, of which the recording knows
}

// probe is what is recorded of the events of a program.
type probe struct {
	number uint32 // in the recording
	ok     bool   // there was room for it
	items  []record.Item
	kept   []int // the items that are recorded
	size   int
}

func (t *tape) open() (err error) {
	if t.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: ringSize}); err != nil {
		return bpf.MapError(err)
	}
	if t.stream, err = event.NewStream(t.ring, t.size); err != nil {
		t.ring.Close()
		return err
	}
	if err = t.create(); err != nil {
		t.close()
	}
	return err
}

// create makes the file.
func (t *tape) create() (err error) {
	path := t.options.Path
	if t.file, err = recordfile.Create(path, t.options.Size); err != nil {
		return fmt.Errorf("-O %s: %w", path, err)
	}
	o := recorder.Options{Foreign: true}
	recordfile.Describe(&o.Head)
	o.Head.Executable, o.Head.Start = "", 0
	if pids := t.run.PIDs; len(pids) == 1 {
		o.Head.PID = uint32(pids[0])
		o.Head.Executable, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", pids[0]))
	}
	t.writer = recorder.New(t.file.Memory, t.file.Chunks, o)
	return nil
}

// publish gives the file its name. Until then, an earlier recording has it.
func (t *tape) publish() error {
	path := t.options.Path
	if err := t.file.Publish(path); err != nil {
		return fmt.Errorf("-O %s: %w", path, err)
	}
	t.published = true
	if t.file.Path != path {
		t.run.Warn("another process records to %s, so this is recorded to %s", path, t.file.Path)
	}
	if t.file.Previous != "" {
		t.run.Warn("the earlier recording %s is called %s now", path, t.file.Previous)
	}
	if t.file.Removed != "" {
		t.run.Warn("%s is removed, because there were more than %d earlier recordings", t.file.Removed, recordfile.Keep)
	}
	return nil
}

func (t *tape) close() {
	if t.writer != nil {
		t.writer.Close()
		if !t.published {
			_ = os.Remove(t.file.Path)
		}
		_ = t.file.Close()
	}
	t.stream.Close()
	t.ring.Close()
}

// Selector implements engine.Subscriber.
func (t *tape) Selector() *probes.Selector { return t.run.Selector }

// Together implements engine.Subscriber.
func (t *tape) Together() bool { return false }

// AsksProcesses implements engine.Subscriber.
func (t *tape) AsksProcesses() bool { return false }

// ProcessFound implements engine.Subscriber.
func (t *tape) ProcessFound(int) error { return nil }

// Problem implements engine.Subscriber.
func (t *tape) Problem(err error) { t.run.Problem(err) }

// size returns the size of the kernel's records of a program.
func (t *tape) size(id uint32) int {
	if int(id) >= len(t.probes) {
		return 0
	}
	return t.probes[id].size
}

// Section implements engine.Subscriber.
func (t *tape) Section(p *bpf.Probe) (*bpf.Section, error) {
	tr, err := bpf.NewTrace(p, t.run.Where, nil, t.options.TextSize, false)
	if err != nil {
		return nil, err
	}
	section, err := tr.Section(t.run.Env, t.ring, uint32(len(t.probes)))
	if err != nil {
		return nil, err
	}
	entry, kept := describe(p, tr.Items)
	if left := len(tr.Items) - len(kept); left > 0 {
		t.run.Warn("%v: %s can never be read, and not recorded", p, render.Number(left, "argument"))
	}
	added := &probe{items: tr.Items, kept: kept, size: tr.Size}
	key := string(entry.Append(nil))
	if added.number, added.ok = t.numbers[key]; !added.ok {
		added.number, added.ok = t.writer.AddProbe(entry)
	}
	if !added.ok {
		return nil, fmt.Errorf("%v: the recording has no room for its name; a larger --size has more", p)
	}
	if t.numbers == nil {
		t.numbers = map[string]uint32{}
	}
	t.numbers[key] = added.number
	t.probes = append(t.probes, added)
	return section, nil
}

// FDs implements engine.Consumer.
func (t *tape) FDs() []int { return []int{t.stream.FD()} }

// Tick records the next events.
func (t *tape) Tick() (next time.Duration, more bool, err error) {
	events, err := t.stream.Read(0, false)
	if err != nil {
		return 0, false, err
	}
	t.add(events)
	if next = engine.Rest; t.stream.Waiting() {
		next = event.Slack
	}
	if t.writer.Failed() {
		return 0, false, fmt.Errorf("%s: the recording has ended, because the file was truncated or its disk failed", t.file.Path)
	}
	return next, t.recorded < t.options.Limit, t.lose()
}

// drain records what was written before the detachment.
func (t *tape) drain() error {
	for {
		events, err := t.stream.Read(0, true)
		if err != nil || len(events) == 0 {
			return err
		}
		t.add(events)
	}
}

func (t *tape) add(events []*event.Event) {
	for _, e := range events {
		if t.recorded == t.options.Limit {
			return
		}
		t.append(t.probes[e.ID], e)
	}
}

// append records an event. One with an argument that could not be read is left out: a recording cannot say
// that a value is unknown.
func (t *tape) append(p *probe, e *event.Event) {
	t.words, t.texts = t.words[:0], t.texts[:0]
	for _, i := range p.kept {
		v := e.Value(p.items, i)
		switch {
		case v.Missing:
			t.unreadable++
			t.writer.Drop()
			return
		case p.items[i].Type.Kind == expr.String:
			t.words = append(t.words, uint64(len(v.Text)))
			t.texts = append(t.texts, string(v.Text))
		default:
			t.words = append(t.words, v.Bits)
		}
	}
	t.writer.AppendForeign(p.number, uint64(e.Time), e.PID, e.TID, t.words, t.texts)
	t.recorded++
}

// lose counts in the recording what the kernel has lost.
func (t *tape) lose() error {
	stats, err := record.ReadStats(t.run.Env.Stats)
	if err != nil {
		return err
	}
	if n := stats.Lost - t.lost; n > 0 {
		t.lost = stats.Lost
		t.writer.DropSome(n)
	}
	return nil
}

// report says what the recording has.
func (t *tape) report() error {
	if err := t.lose(); err != nil {
		return err
	}
	t.writer.Close()
	reader, err := recording.NewReader(t.file.File)
	if err == nil {
		_, err = reader.More()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.file.Path, err)
	}
	oldest := reader.Lost() - t.writer.Dropped()
	t.run.Warn("recorded %s to %s", render.Number(t.recorded, "event"), t.file.Path)
	if oldest > 0 {
		t.run.Warn("the oldest %d of them were dropped, because the file has room for %d bytes: see --size", oldest, t.options.Size)
	}
	if t.lost > 0 {
		t.run.Warn("%d other events were lost, because they came faster than they could be recorded", t.lost)
	}
	if t.unreadable > 0 {
		t.run.Warn("%d events are not included, because an argument could not be read", t.unreadable)
	}
	stats, err := record.ReadStats(t.run.Env.Stats)
	if err == nil {
		t.run.Unevaluated(stats)
	}
	return err
}

// describe returns the entry for a probe, and which items it has.
func describe(p *bpf.Probe, items []record.Item) (entry *recording.Probe, kept []int) {
	entry = &recording.Probe{Provider: p.Provider, Name: p.Name}
	for i := range items {
		if items[i].Unreadable != nil || len(kept) == recording.MaxArgs {
			continue
		}
		arg := argOf(&items[i])
		arg.Name = items[i].Name
		entry.Args, kept = append(entry.Args, arg), append(kept, i)
	}
	return entry, slices.Clip(kept)
}
