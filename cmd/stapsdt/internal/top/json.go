//go:build linux

package top

import (
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
)

// jsonSnapshot is a snapshot in JSON.
type jsonSnapshot struct {
	Time       time.Time         `json:"time"`
	Seconds    float64           `json:"seconds"`
	Operations []jsonLine        `json:"operations"`
	Open       int               `json:"open"`
	Unknown    int               `json:"end_may_be_lost"`
	Longest    []replay.JSONOpen `json:"longest"`
	Others     uint64            `json:"others"`
	Full       uint64            `json:"full"`
	Before     uint64            `json:"before"`
	Lost       uint64            `json:"lost"`
}

type jsonLine struct {
	Operation string            `json:"operation"`
	By        render.JSONObject `json:"by"`
	Count     uint64            `json:"count"`
	Rate      float64           `json:"rate"`
	Errors    float64           `json:"errors"`
	Open      int               `json:"open"`
	Longest   time.Duration     `json:"longest"`
	P50       *render.JSONFloat `json:"p50"`
	P99       *render.JSONFloat `json:"p99"`
}

// encode writes the snapshot as an object.
func (s *snapshot) encode(w io.Writer) error {
	j := jsonSnapshot{
		Time: s.at.UTC(), Seconds: s.window.Seconds(), Operations: []jsonLine{}, Open: s.allOpen, Unknown: s.unknown, Longest: []replay.JSONOpen{},
		Others: s.others, Full: s.full, Before: s.before, Lost: s.lost,
	}
	for _, l := range s.sorted(defaultColumn, "") {
		one := jsonLine{
			Operation: l.name, By: replay.Object(l.by), Count: l.count, Rate: l.rate, Errors: l.errors, Open: l.open, Longest: l.longest,
		}
		if len(l.histogram.Buckets) > 0 {
			p50, p99 := render.JSONFloat(l.p50), render.JSONFloat(l.p99)
			one.P50, one.P99 = &p50, &p99
		}
		j.Operations = append(j.Operations, one)
	}
	for i := range s.open {
		j.Longest = append(j.Longest, s.open[i].JSONOpen)
	}
	return render.NewEncoder(w).Encode(j)
}
