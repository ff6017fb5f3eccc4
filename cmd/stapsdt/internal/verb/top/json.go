package top

import (
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
)

// JSONScreen is a snapshot in JSON.
type JSONScreen struct {
	Time       time.Time  `json:"time"`
	Since      *time.Time `json:"since,omitempty"`
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

// jsonLine is a row of a snapshot in JSON.
type jsonLine struct {
	Operation string            `json:"operation"`
	By        render.JSONObject `json:"by"`
	Count     uint64            `json:"count"` // of all operations
	Rate      float64           `json:"rate"`  // per second
	Errors    float64           `json:"errors"`
	Open      int               `json:"open"`
	Longest   time.Duration     `json:"longest"`
	P50       *render.JSONFloat `json:"p50"` // nil if nothing has ended
	P99       *render.JSONFloat `json:"p99"`
}

// jsonOpen is an open operation in JSON.
type jsonOpen struct {
	Operation string `json:"operation"`
	pairing.JSONOpen
	Parent uint64 `json:"parent,omitempty"`
}

// encode writes the snapshot as an object.
func (s *snapshot) encode(w io.Writer) error {
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
