package functions

import (
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// JSONCalls is a row of the table of functions in JSON.
type JSONCalls struct {
	Time  time.Time `json:"time" doc:"at which the line was printed"`
	Start string    `json:"start" doc:"PROVIDER:PROBE"`
	End   string    `json:"end" doc:"PROVIDER:PROBE"`
	JSONRow
	render.JSONHistogram
}

// JSONRow is the part of a row that all verbs print.
type JSONRow struct {
	By    render.JSONObject `json:"by" doc:"values of --by"`
	Count uint64            `json:"count" doc:"number of calls that returned"`
	// Own and OwnAtMost exclude each other.
	Total      time.Duration  `json:"total" doc:"in nanoseconds; of the calls, without recursive ones"`
	Own        *time.Duration `json:"own,omitempty" doc:"in nanoseconds; without the functions called"`
	OwnAtMost  *time.Duration `json:"own_at_most,omitempty" doc:"in nanoseconds; in place of own, if calls were not seen"`
	DetachedAt *time.Time     `json:"detached_at,omitempty" doc:"when the budget detached the function"`
}

// JSONNotes are the functions and calls that have no row, in JSON.
type JSONNotes struct {
	Idle      int      `json:"functions_without_calls" doc:"number of functions"`
	Unseen    []string `json:"not_measured" doc:"functions whose returns cannot be seen"`
	Uncounted int      `json:"functions_detached" doc:"number of functions; detached before a call returned"`
	Running   []string `json:"not_returned" doc:"functions that were called; no call has returned"`
	Calls     uint64   `json:"starts_without_end" doc:"number of events"`
	Returns   uint64   `json:"ends_without_start" doc:"number of events"`
}

// JSONRest is what has no row, after the rows.
type JSONRest struct {
	Time time.Time `json:"time" doc:"at which the line was printed"`
	JSONNotes
}

// JSON returns the part of a row that all verbs print.
func (t *Table) JSON(r *Row) JSONRow {
	j := JSONRow{By: r.By(t.By), Count: r.Count, Total: r.Total, DetachedAt: r.Detached.JSON()}
	if t.AtMost == "" {
		j.Own = &r.Own
	} else {
		j.OwnAtMost = &r.Own
	}
	return j
}

// JSONNotes returns what has no row.
func (t *Table) JSONNotes() JSONNotes {
	return JSONNotes{
		Idle: t.Idle, Uncounted: t.Uncounted, Running: append([]string{}, t.Running...),
		Unseen: append([]string{}, t.Unseen...), Calls: t.Calls, Returns: t.Returns,
	}
}

// encode writes an object for each row, and one for what has none.
func (t *Table) encode(to io.Writer) error {
	encoder := render.NewEncoder(to)
	now := time.Now().UTC()
	for _, r := range t.sorted("") {
		err := encoder.Encode(JSONCalls{now, r.Of.name, r.Of.returns(), t.JSON(r), r.Took.JSON()})
		if err != nil {
			return err
		}
	}
	return encoder.Encode(JSONRest{now, t.JSONNotes()})
}
