package list

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// recordedProbes holds the contents of a recording.
type recordedProbes struct {
	file        *replay.File
	counts      map[uint32]uint64 // the number of events of each probe, by its index
	first, last int64             // times of the first and last event, by CLOCK_REALTIME
}

// runRecorded shows the probes of recordings, with the number of events of each.
func runRecorded(ctx context.Context, to *console.Console, o Options) error {
	if o.Verbose {
		return query.Usagef("-v shows the sites of files, but recordings have none")
	}
	out := &printer{Writer: bufio.NewWriter(to.Out), Options: &o}
	for _, path := range o.From.Paths {
		reader, err := replay.Open(
			replay.From{Paths: []string{path}, Since: o.From.Since, Until: o.From.Until},
			nil,
			"",
			nil,
		)
		if err != nil {
			return err
		}
		reader.Begin(to)
		all, err := countRecorded(ctx, reader)
		if err == nil {
			out.group(all.heading(), nil, all.probes())
		}
		if err == nil && o.Format.IsJSON() {
			err = cmp.Or(out.Flush(), reader.Losses().Encode(to.Out))
			reader.Report(to, replay.LowerBounds)
		}
		reader.Close()
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// countRecorded reads all events of a reader with one file.
func countRecorded(ctx context.Context, reader *replay.Reader) (*recordedProbes, error) {
	all := &recordedProbes{file: reader.Files()[0], counts: map[uint32]uint64{}}
	if _, err := reader.More(); err != nil {
		return nil, err
	}
	for n := 0; n%1024 != 0 || ctx.Err() == nil; n++ {
		e, _, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		all.counts[e.Number]++
		if all.last = e.Realtime; n == 0 {
			all.first = e.Realtime
		}
	}
	return all, nil
}

// heading describes the recording.
func (r *recordedProbes) heading() string {
	head := r.file.Head()
	line := fmt.Sprintf("%s (process %d, %s", r.file.Path, head.PID, head.Executable)
	if r.last != 0 {
		const clock = "15:04:05.000000"
		line += fmt.Sprintf(
			", %s to %s", time.Unix(0, r.first).Format("2006-01-02 "+clock), time.Unix(0, r.last).Format(clock),
		)
	}
	if r.file.Lost() > 0 {
		line += "; lost " + r.file.LossText()
	}
	return line + ")"
}

func (r *recordedProbes) probes() (all []*probe) {
	for i, p := range r.file.Probes() {
		n := r.counts[uint32(i)]
		one := newProbe(p, int(r.file.Head().PID))
		one.File, one.Events, one.notes = r.file.Path, &n, []string{render.Number(n, "event")}
		all = append(all, one)
	}
	return all
}

// newProbe returns a probe that a program describes.
func newProbe(p *recording.Probe, pids ...int) *probe {
	one := &probe{JSONProbe: JSONProbe{
		Provider: p.Provider, Probe: p.Name, PIDs: append([]int{}, pids...), Args: []argument{},
	}}
	for i := range p.Args {
		name, kind := evaluate.Argument(p, i)
		one.Args = append(one.Args, argument{name, kind})
	}
	return one
}
