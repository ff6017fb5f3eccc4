package top

import (
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
)

// JSONScreen is a snapshot in JSON.
type JSONScreen struct {
	Time       time.Time  `json:"time" doc:"at which the line was printed"`
	Since      *time.Time `json:"since,omitempty" doc:"operations begun since are known; only of live streams"`
	Seconds    float64    `json:"seconds" doc:"of rates and quantiles; the time that they cover"`
	Operations []jsonLine `json:"operations" doc:"a row for each kind and values of --by"`
	Open       int        `json:"open" doc:"number of operations"`
	Unknown    int        `json:"end_may_be_lost" doc:"number of operations"`
	Longest    []jsonOpen `json:"longest" doc:"operations without an end, the longest first"`
	Others     uint64     `json:"others" doc:"operations without a row; there are too many rows"`
	Full       uint64     `json:"full" doc:"starts without room; too many operations are open"`
	Before     uint64     `json:"before" doc:"operations begun earlier; than the command"`
	Lost       uint64     `json:"lost" doc:"number of events"`
}

// jsonLine is a row of a snapshot in JSON.
type jsonLine struct {
	Operation string            `json:"operation" doc:"PROVIDER:NAME"`
	By        render.JSONObject `json:"by" doc:"values of --by"`
	Count     uint64            `json:"count" doc:"number of operations that ended"`
	Rate      float64           `json:"rate" doc:"per second; operations that ended"`
	Errors    float64           `json:"errors" doc:"per second; operations that failed"`
	Open      int               `json:"open" doc:"number of operations"`
	Longest   time.Duration     `json:"longest" doc:"in nanoseconds; of the open operations"`
	P50       *render.JSONFloat `json:"p50" doc:"in nanoseconds; null if no operation ended"`
	P99       *render.JSONFloat `json:"p99" doc:"in nanoseconds; null if no operation ended"`
}

// jsonOpen is an open operation in JSON.
type jsonOpen struct {
	Operation string `json:"operation" doc:"PROVIDER:NAME"`
	pairing.JSONOpen
	Parent uint64 `json:"parent,omitempty" doc:"ID of the operation that it is a part of"`
}

// encode writes the snapshot as an object.
func (s *snapshot) encode(w io.Writer) error {
	if s.functions != nil {
		return s.encodeFunctions(w)
	}
	j := JSONScreen{
		Time: s.at.UTC(), Since: s.past.JSON(), Seconds: s.window.Seconds(),
		Operations: []jsonLine{}, Open: s.allOpen, Unknown: s.unknown, Longest: []jsonOpen{},
		Others: s.others, Full: s.full, Before: s.before, Lost: s.lost,
	}
	for _, l := range s.sorted(defaultColumn, "") {
		j.Operations = append(j.Operations, l.jsonLine)
	}
	for i := range s.open {
		j.Longest = append(j.Longest, s.open[i].jsonOpen)
	}
	return render.NewEncoder(w).Encode(j)
}
