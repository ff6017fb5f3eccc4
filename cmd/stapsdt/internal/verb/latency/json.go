package latency

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// jsonHead is the first part of each object.
type jsonHead struct {
	Time  time.Time `json:"time" doc:"at which the line was printed"`
	Start string    `json:"start" doc:"PROVIDER:PROBE"`
	End   string    `json:"end" doc:"PROVIDER:PROBE"`
	// DetachedAt is the time when the probes were detached to keep the budget: later operations are
	// not measured.
	DetachedAt *time.Time `json:"detached_at,omitempty" doc:"when the budget detached the probes"`
}

// JSONTimes are the times of operations with the same values of --by.
type JSONTimes struct {
	jsonHead
	By    render.JSONObject `json:"by" doc:"values of --by"`
	Count uint64            `json:"count" doc:"number of operations that ended"`
	render.JSONHistogram
}

// JSONUnpaired describes the unpaired events of a kind of operation.
type JSONUnpaired struct {
	jsonHead
	Since   *time.Time         `json:"since,omitempty" doc:"operations begun since are known; only of live streams"`
	Starts  uint64             `json:"starts_without_end" doc:"number of events"`
	Ends    uint64             `json:"ends_without_start" doc:"number of events"`
	Open    int                `json:"open" doc:"number of operations"`
	Unknown int                `json:"end_may_be_lost" doc:"number of operations"`
	Longest []pairing.JSONOpen `json:"longest" doc:"operations without an end, the longest first"`
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
