//go:build linux

package export

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/metric"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// PrintRecorded prints the metrics that the rules of a file make of the events of recordings. What is not printable in a label is replaced.
func PrintRecorded(ctx context.Context, to *console.Console, file string, from replay.From) error {
	all, err := rules.Read(file)
	if err != nil {
		return err
	}
	source, err := replay.Open(from, nil, "", nil)
	if err != nil {
		return err
	}
	defer source.Close()
	source.Begin(to)
	var created time.Time
	for _, f := range source.Files() {
		if at := time.Unix(0, f.Head().Reading.Realtime); created.IsZero() || at.Before(created) {
			created = at
		}
	}
	problem := func(err error) { to.Warn("%v", err) }
	var metrics []*metric.Recorded
	for _, text := range all.Metrics {
		m, err := metric.NewRecorded(text, cgroup.Container{}, created, problem)
		if err != nil {
			problem(fmt.Errorf("%s: %w", text.Name, err))
			continue
		}
		for _, p := range source.Probes() {
			m.Meet(p)
		}
		metrics = append(metrics, m)
	}
	err = source.Each(ctx, func(e *recording.Event, f *replay.File) error {
		for _, m := range metrics {
			m.Add(e, f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var families []*expose.Family
	for _, m := range metrics {
		families = append(families, m.Family())
		m.Report(to)
	}
	source.Report(to, replay.LowerBounds)
	var b bytes.Buffer
	if err := expose.WriteText(&b, families); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(to.Out, render.Printable(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}
