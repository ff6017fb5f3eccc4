//go:build linux

package list

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// recordedProbes holds the contents of a recording.
type recordedProbes struct {
	file        *replay.File
	counts      []uint64 // the number of events of each probe, by its index
	first, last int64    // times of the first and last event, by CLOCK_REALTIME
}

// runRecorded shows the probes of recordings, with the number of events of each.
func runRecorded(ctx context.Context, to *console.Console, o Options) error {
	if o.Verbose {
		return console.Usagef("-v shows the sites of files, and recordings have none")
	}
	out := bufio.NewWriter(to.Out)
	for i, path := range o.From.Paths {
		if i > 0 && !o.JSON {
			fmt.Fprintln(out)
		}
		reader, err := replay.Open(replay.From{Paths: []string{path}, Since: o.From.Since, Until: o.From.Until}, nil, "", nil)
		if err != nil {
			return err
		}
		reader.Begin(to)
		all, err := countRecorded(ctx, reader)
		if err == nil && o.JSON {
			err = cmp.Or(all.json(out), out.Flush(), reader.Losses().Encode(to.Out))
			reader.Report(to, replay.LowerBounds)
		} else if err == nil {
			all.text(out)
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
	all := &recordedProbes{file: reader.Files()[0]}
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
		for int(e.Number) >= len(all.counts) {
			all.counts = append(all.counts, 0)
		}
		all.counts[e.Number]++
		if all.last = e.Realtime; n == 0 {
			all.first = e.Realtime
		}
	}
	return all, nil
}

func (r *recordedProbes) count(number int) uint64 {
	if number < len(r.counts) {
		return r.counts[number]
	}
	return 0
}

func (r *recordedProbes) text(out *bufio.Writer) {
	head := r.file.Head()
	fmt.Fprintf(out, "%s (process %d, %s", render.Printable(r.file.Path), head.PID, render.Printable(head.Executable))
	if r.last != 0 {
		const clock = "15:04:05.000000"
		fmt.Fprintf(out, ", %s to %s", time.Unix(0, r.first).Format("2006-01-02 "+clock), time.Unix(0, r.last).Format(clock))
	}
	if r.file.Lost() > 0 {
		fmt.Fprintf(out, "; lost %s", r.file.LossText())
	}
	fmt.Fprintln(out, ")")
	for i, p := range r.file.Probes() {
		line := fmt.Sprintf("  %s:%s(%s)  # %s", p.Provider, p.Name, replay.Signature(p), render.Number(r.count(i), "event"))
		fmt.Fprintln(out, render.Printable(line))
	}
}

// recordedProbe is the JSON object of a probe of a recording.
type recordedProbe struct {
	File     render.JSONText `json:"file"`
	Provider render.JSONText `json:"provider"`
	Probe    render.JSONText `json:"probe"`
	PIDs     []int           `json:"pids"`
	Args     []jsonArg       `json:"args"`
	Events   uint64          `json:"events"`
}

func (r *recordedProbes) json(out *bufio.Writer) error {
	encoder := render.NewEncoder(out)
	for i, p := range r.file.Probes() {
		j := recordedProbe{
			File: render.JSONText(r.file.Path), Provider: render.JSONText(p.Provider), Probe: render.JSONText(p.Name),
			PIDs: []int{int(r.file.Head().PID)}, Args: jsonArgs(p), Events: r.count(i),
		}
		if err := encoder.Encode(j); err != nil {
			return err
		}
	}
	return nil
}

// jsonArgs returns the JSON objects of a probe's arguments.
func jsonArgs(p *recording.Probe) []jsonArg {
	all := make([]jsonArg, len(p.Args))
	for i := range p.Args {
		all[i].Name, all[i].Type = replay.Argument(p, i)
	}
	return all
}
