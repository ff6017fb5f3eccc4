//go:build linux

package events

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// ringSize holds what two threads fire in a tenth of a second.
const ringSize = 32 << 20

// checkInterval is how often processes that have ended are forgotten.
const checkInterval = 2 * time.Second

// traced delivers the events of the kernel as those of recordings. It is an engine.Subscriber and an
// engine.Consumer.
type traced struct {
	*run.Ring
	run        *run.Run
	goroutines *probes.Goroutines // or nil
	consumer   Consumer           // from follow on
	sources    []*source          // by the numbers of the probes
	files      map[uint32]*replay.File
	checked    time.Time
	clock      event.Clock
	unreadable uint64
	// These are of the event that is delivered.
	event recording.Event
	body  []byte
	call  Call
	// calls are those of the options, and functions the probes, if all are functions.
	calls     *Calls
	functions []*bpf.Probe
}

var (
	_ engine.Subscriber = (*traced)(nil)
	_ engine.Consumer   = (*traced)(nil)
)

// source is a probe whose events the kernel delivers.
type source struct {
	probe *recording.Probe
	items []layout.Item
	calls callItems
}

// openTraced attaches to the probes.
func openTraced(to *console.Console, config *run.Config, o *Options) (t *traced, err error) {
	t = &traced{files: map[uint32]*replay.File{}, checked: time.Now(), calls: o.Calls}
	defer func() {
		if err != nil {
			t.close()
			t = nil
		}
	}()
	if t.run, err = run.New(to, *config); err != nil {
		return t, err
	}
	if t.Ring, err = t.run.NewRing(ringSize); err != nil {
		return t, err
	}
	if o.Goroutines {
		t.goroutines = &probes.Goroutines{}
		if err := t.goroutines.Prepare(t.run.Env); err != nil {
			return t, err
		}
	}
	if err := t.run.Attach(t); err != nil {
		return t, err
	}
	if o.Calls != nil {
		if err := o.Calls.check(t.functions); err != nil {
			return t, err
		}
	}
	if o.Needs.All == nil || config.All && len(t.sources) == 0 {
		return t, nil
	}
	var all []*recording.Probe
	for _, s := range t.sources {
		all = append(all, s.probe)
	}
	return t, o.Needs.All(all)
}

// close releases everything.
func (t *traced) close() {
	if t.Ring != nil {
		t.Close()
	}
	if t.goroutines != nil {
		t.goroutines.Close()
	}
	if t.run != nil {
		t.run.Close()
	}
}

// AsksProcesses implements engine.Subscriber.
func (t *traced) AsksProcesses() bool { return t.goroutines != nil }

// ProcessFound implements engine.Subscriber. The events of a process that has no goroutines have none.
func (t *traced) ProcessFound(pid int) error {
	_ = t.goroutines.Find(t.run.Env, pid)
	return nil
}

// Section implements engine.Subscriber.
func (t *traced) Section(p *bpf.Probe) (*bpf.Section, error) {
	tr, err := bpf.NewTrace(p, "", nil, TextSize, false)
	if err != nil {
		return nil, err
	}
	if t.goroutines != nil {
		tr.AddGoroutine()
	}
	s := &source{probe: &recording.Probe{Provider: p.Provider, Name: p.Name}}
	if t.calls != nil {
		if s.calls, err = t.calls.add(tr, p); err != nil {
			return nil, err
		}
		t.functions = append(t.functions, p)
	}
	s.items = tr.Items
	section, err := t.Add(tr)
	if err != nil {
		return nil, err
	}
	for i := range p.Args {
		s.probe.Args = append(s.probe.Args, argOf(&tr.Items[i]))
	}
	t.sources = append(t.sources, s)
	if t.consumer != nil {
		t.consumer.Know(s.probe)
	}
	return section, nil
}

// argOf returns the description that a recording would have of an argument.
func argOf(item *layout.Item) recording.Arg {
	a := recording.Arg{Name: item.Name, Type: int8(item.Type.Size), Kind: recording.Uint64}
	switch {
	case item.Type.Kind == expr.String, item.Names != nil, item.Unreadable != nil:
		a.Type, a.Kind = recording.TypeString, recording.String
	case item.Type.Kind == expr.Float:
		a.Type, a.Kind = int8(recording.TypeFloat32-4+item.Type.Size), recording.Float64
	case item.Type.Kind == expr.Bool:
		a.Kind = recording.Bool
	case item.Type.Duration:
		a.Type, a.Kind = -a.Type, recording.Duration
	case item.Type.Kind == expr.Int:
		a.Type, a.Kind = -a.Type, recording.Int64
	case item.IsPointer():
		a.Kind = recording.Pointer
	}
	return a
}

// follow lets a consumer take the events.
func (t *traced) follow(ctx context.Context, c Consumer) error {
	t.consumer = c
	for _, s := range t.sources {
		c.Know(s.probe)
	}
	err := t.run.Wait(ctx, t)
	if err == nil {
		err = t.Drain(t.deliver)
	}
	if errors.Is(err, live.ErrEnough) {
		return nil
	}
	return err
}

// Tick implements engine.Consumer.
func (t *traced) Tick() (next time.Duration, more bool, err error) {
	due, err := t.Take(t.deliver)
	if err != nil {
		return 0, false, err
	}
	t.forget()
	next, more, err = t.consumer.Tick()
	return min(next, due), more, err
}

// forget says how late it is, and forgets the processes that have ended.
func (t *traced) forget() {
	now := event.Now()
	for _, f := range t.files {
		f.Passed(now)
	}
	if time.Since(t.checked) < checkInterval {
		return
	}
	t.checked = time.Now()
	if t.goroutines != nil {
		t.goroutines.Forget()
	}
	for pid, f := range t.files {
		if !target.Alive(int(pid)) {
			delete(t.files, pid)
			t.consumer.Gone(f)
		}
	}
}

// deliver delivers events.
func (t *traced) deliver(events []*event.Event) error {
	for _, e := range events {
		if err := t.decode(e); err != nil {
			return err
		}
		if err := t.consumer.Event(&t.event, t.files[e.PID]); err != nil {
			return err
		}
	}
	return nil
}

// decode makes an event that of a recording.
func (t *traced) decode(e *event.Event) error {
	f := t.files[e.PID]
	if f == nil {
		f = replay.NewFile(replay.NewProcess(int(e.PID)))
		t.files[e.PID] = f
	}
	f.Passed(e.Time)
	f.Process.FindPod(e.Time)
	s := t.sources[e.ID]
	t.event = recording.Event{
		Number: e.ID, Monotonic: e.Time, Realtime: t.clock.At(e.Time).UnixNano(),
		PID: e.PID, TID: e.TID, Executable: f.Process.Executable, Pod: f.Process.Pod,
	}
	if t.calls != nil {
		t.call.decode(e, s)
	}
	if n := len(s.probe.Args); t.goroutines != nil {
		t.event.Goroutine = e.Value(s.items, n).Bits // 0 if it is missing
	}
	t.body = t.body[:0]
	for i := range s.probe.Args {
		t.body = binary.LittleEndian.AppendUint64(t.body, t.word(e, s, i))
	}
	for i, a := range s.probe.Args {
		if a.Kind == recording.String {
			text := t.text(e, s, i)
			t.body = append(t.body, text...)
			t.body = append(t.body, make([]byte, (len(text)+8)&^7-len(text))...)
		}
	}
	return t.event.Decode(s.probe, t.body)
}

// word returns an argument, or the length of a text.
func (t *traced) word(e *event.Event, s *source, i int) uint64 {
	v := e.Value(s.items, i)
	isText := s.probe.Args[i].Kind == recording.String
	if v.Missing && s.items[i].Unreadable == nil && (!isText || v.Bits != 0 || s.items[i].Names != nil) { // and not a null pointer
		t.unreadable++
	}
	switch {
	case isText:
		return uint64(len(t.text(e, s, i)))
	case v.Missing:
		return 0
	}
	return v.Bits
}

// text returns an argument that is a text. One that was cut ends in an ellipsis.
func (t *traced) text(e *event.Event, s *source, i int) []byte {
	v := e.Value(s.items, i)
	switch {
	case s.items[i].Unreadable != nil:
		return []byte("<unavailable>")
	case v.Missing && (v.Bits != 0 || s.items[i].Names != nil):
		return []byte("<unreadable>")
	case s.items[i].Names != nil:
		return []byte(s.items[i].Names.NameOf(v.Bits))
	case v.Cut:
		return append(v.Text[:len(v.Text):len(v.Text)], "…"...)
	}
	return v.Text
}

// lost returns how many events were lost.
func (t *traced) lost() uint64 {
	stats, err := layout.ReadStats(t.run.Env.Stats)
	if err != nil {
		return 0
	}
	return stats.Lost
}
