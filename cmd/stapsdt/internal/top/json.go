//go:build linux

package top

import (
	"encoding/json"
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
)

// jsonSnapshot is a snapshot in JSON.
type jsonSnapshot struct {
	Time       time.Time  `json:"time"`
	Seconds    float64    `json:"seconds"`
	Operations []jsonLine `json:"operations"`
	Open       int        `json:"open"`
	Unknown    int        `json:"end_may_be_lost"`
	Longest    []jsonOpen `json:"longest"`
	Others     uint64     `json:"others"`
	Full       uint64     `json:"full"`
	Before     uint64     `json:"before"`
	Lost       uint64     `json:"lost"`
}

type jsonLine struct {
	Operation render.JSONText   `json:"operation"`
	By        render.JSONObject `json:"by"`
	Count     uint64            `json:"count"`
	Rate      float64           `json:"rate"`
	Errors    float64           `json:"errors"`
	Open      int               `json:"open"`
	Longest   time.Duration     `json:"longest"`
	P50       *render.JSONFloat `json:"p50"`
	P99       *render.JSONFloat `json:"p99"`
}

type jsonOpen struct {
	Operation   render.JSONText   `json:"operation"`
	Nanoseconds time.Duration     `json:"nanoseconds"`
	Unknown     bool              `json:"end_may_be_lost,omitempty"`
	PID         uint32            `json:"pid"`
	TID         uint32            `json:"tid,omitempty"`
	Goroutine   uint64            `json:"goroutine,omitempty"`
	Parent      uint64            `json:"parent,omitempty"`
	Key         json.RawMessage   `json:"key"`
	By          render.JSONObject `json:"by"`
	Args        render.JSONObject `json:"args"`
}

// encode writes the snapshot as an object.
func (s *snapshot) encode(w io.Writer) error {
	j := jsonSnapshot{
		Time: s.at.UTC(), Seconds: s.window.Seconds(), Operations: []jsonLine{}, Open: s.allOpen, Unknown: s.unknown, Longest: []jsonOpen{},
		Others: s.others, Full: s.full, Before: s.before, Lost: s.lost,
	}
	for _, l := range s.sorted(defaultColumn, "") {
		one := jsonLine{
			Operation: render.JSONText(l.name), By: replay.Object(l.by), Count: l.count, Rate: l.rate, Errors: l.errors, Open: l.open, Longest: l.longest,
		}
		if len(l.histogram.Buckets) > 0 {
			p50, p99 := render.JSONFloat(l.p50), render.JSONFloat(l.p99)
			one.P50, one.P99 = &p50, &p99
		}
		j.Operations = append(j.Operations, one)
	}
	for i := range s.open {
		o := &s.open[i]
		j.Longest = append(j.Longest, jsonOpen{
			render.JSONText(o.name), o.since, o.unknown, o.pid, o.tid, o.goroutine, o.parent, o.key.JSON, replay.Object(o.by), replay.Object(o.args),
		})
	}
	return render.NewEncoder(w).Encode(j)
}
