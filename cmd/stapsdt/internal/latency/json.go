//go:build linux

package latency

import (
	"encoding/json"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
)

// jsonHead is how each object begins.
type jsonHead struct {
	Time  time.Time       `json:"time"`
	Start render.JSONText `json:"start"`
	End   render.JSONText `json:"end"`
}

// jsonTimes are the times of operations with the same values of --by.
type jsonTimes struct {
	jsonHead
	By render.JSONObject `json:"by"`
	render.JSONHistogram
}

// jsonUnpaired is what there is of a kind of operation without a counterpart.
type jsonUnpaired struct {
	jsonHead
	Starts  uint64     `json:"starts_without_end"`
	Ends    uint64     `json:"ends_without_start"`
	Open    int        `json:"open"`
	Longest []jsonOpen `json:"longest"`
}

// jsonOpen is an operation that is open.
type jsonOpen struct {
	Nanoseconds time.Duration     `json:"nanoseconds"`
	PID         int               `json:"pid"`
	TID         int               `json:"tid"`
	Key         json.RawMessage   `json:"key"`
	By          render.JSONObject `json:"by"`
	Args        render.JSONObject `json:"args"`
}

// encode writes an object for each row, and one for what is unpaired of each kind of operation.
func (l *latency) encode(rows []*count.Row[*operation], all []unpaired, now time.Duration) error {
	encoder := render.NewEncoder(l.run.Out)
	head := func(o *operation) jsonHead {
		return jsonHead{time.Now().UTC(), render.JSONText(o.start), render.JSONText(o.end)}
	}
	for _, r := range rows {
		if err := encoder.Encode(jsonTimes{head(r.Of), r.By(l.options.By), r.Histogram(l.options.Buckets).JSON()}); err != nil {
			return err
		}
	}
	for i, o := range l.kinds.all {
		u := &all[i]
		object := jsonUnpaired{head(o), u.starts, u.ends, len(u.open), []jsonOpen{}}
		for _, open := range u.oldest() {
			object.Longest = append(object.Longest, l.jsonOpen(&open, now))
		}
		if err := encoder.Encode(object); err != nil {
			return err
		}
	}
	return nil
}

func (l *latency) jsonOpen(o *record.Open, now time.Duration) jsonOpen {
	plan := l.operations.Plan
	bits, text, _ := plan.Key.In(o.Key)
	j := jsonOpen{Nanoseconds: now - o.Since, PID: o.PID, TID: o.TID, Key: render.KeyJSON(&plan.Key, bits, text)}
	for i := range plan.Open {
		item := &plan.Open[i]
		if !o.Known(i) {
			continue
		}
		object := &j.Args
		if i < plan.OpenBy {
			object = &j.By
		}
		bits, text, _ := item.In(o.Value)
		object.Names, object.Values = append(object.Names, item.Name), append(object.Values, render.KeyJSON(item, bits, text))
	}
	return j
}
