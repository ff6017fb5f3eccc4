//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"

	"github.com/spf13/cobra"
)

func (s *session) countCommand() *cobra.Command {
	a := &aggregate{tracing: tracing{session: s}}
	c := &cobra.Command{
		Use:   "count SPEC... (-p PID | -a | with FILE in each SPEC)",
		Short: "Count events",
		Long: `Count the events of the probes in the kernel, until Ctrl-C, and print the numbers.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a says which processes are meant.`,
		Example: `  stapsdt count -p 1234 'myapp:*' -d 10s
  stapsdt count -a myapp:request__done --by status,pid -i 1s
  stapsdt count postgres:postgresql:query__start --by 'str(arg0)'`,
		RunE: func(c *cobra.Command, args []string) error { return a.run(c.Context(), args, a.showCounts) },
	}
	a.flags(c)
	return c
}

func (a *aggregate) showCounts(rows []*row) ([]byte, error) {
	if a.output == "json" {
		return a.jsonRows(rows, func(r *row) string { return fmt.Sprintf(`,"count":%d`, r.count) }), nil
	}
	if len(rows) == 0 {
		return []byte("no events\n"), nil
	}
	rows, others := a.most(rows)
	table := render.Table{Right: 1, Width: columns(a.stdout)}
	header := []string{"COUNT"}
	if a.interval > 0 {
		header = append(header, "PER SECOND")
		table.Right = 2
	}
	table.Add(append(append(header, "PROBE"), a.by...)...)
	for _, r := range rows {
		cells := []string{fmt.Sprint(r.count)}
		if a.interval > 0 {
			cells = append(cells, fmt.Sprintf("%.0f", r.rate))
		}
		table.Add(append(append(cells, render.Printable(r.of.String())), r.text...)...)
	}
	return append(table.Text(), others...), nil
}

// jsonRows returns an object for each row, which ends with what rest returns.
func (a *aggregate) jsonRows(rows []*row, rest func(*row) string) []byte {
	var b strings.Builder
	now := time.Now().UTC().Format(time.RFC3339Nano)
	for _, r := range rows {
		fmt.Fprintf(&b, `{"time":"%s",%s,"by":%s%s}`+"\n", now, r.of.json(), jsonObject(a.by, r.json), rest(r))
	}
	return []byte(b.String())
}
