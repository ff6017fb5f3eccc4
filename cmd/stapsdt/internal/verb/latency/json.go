package latency

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// jsonHead is the first part of each object.
type jsonHead struct {
	Time  time.Time `json:"time"`
	Start string    `json:"start"`
	End   string    `json:"end"`
	// DetachedAt is the time when the probes were detached to keep the budget: later operations are
	// not measured.
	DetachedAt *time.Time `json:"detached_at,omitempty"`
}

// JSONTimes are the times of operations with the same values of --by.
type JSONTimes struct {
	jsonHead
	By    render.JSONObject `json:"by"`
	Count uint64            `json:"count"`
	render.JSONHistogram
}

// JSONUnpaired describes the unpaired events of a kind of operation.
type JSONUnpaired struct {
	jsonHead
	Since   *time.Time         `json:"since,omitempty"` // operations that have begun since then are known
	Starts  uint64             `json:"starts_without_end"`
	Ends    uint64             `json:"ends_without_start"`
	Open    int                `json:"open"`
	Unknown int                `json:"end_may_be_lost"`
	Longest []pairing.JSONOpen `json:"longest"`
}

// encode writes an object for each row, and one for the unpaired events of each kind of operation.
func (l *latency) encode(rows []*count.Row[*operation], all []unpaired) error {
	encoder := render.NewEncoder(l.Out)
	head := func(o *operation) jsonHead {
		return jsonHead{time.Now().UTC(), o.start, o.end, l.source.detached(o).JSON()}
	}
	for _, r := range rows {
		h := r.Histogram(l.options.Buckets)
		object := JSONTimes{head(r.Of), r.By(l.options.By), h.Count(), h.JSON()}
		if err := encoder.Encode(object); err != nil {
			return err
		}
	}
	for i, o := range l.kinds.all {
		if o.unfit {
			continue
		}
		u := &all[i]
		object := JSONUnpaired{
			head(o), l.past.JSON(), u.starts, u.ends, u.open, u.unknown, []pairing.JSONOpen{},
		}
		for _, open := range u.oldest {
			object.Longest = append(object.Longest, open.JSON())
		}
		if err := encoder.Encode(object); err != nil {
			return err
		}
	}
	return nil
}
