package count

import (
	"math/big"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// JSONHead is the first part of the object of a row.
type JSONHead struct {
	Time     time.Time         `json:"time" doc:"at which the line was printed"`
	Provider string            `json:"provider" doc:"name"`
	Probe    string            `json:"probe" doc:"name"`
	By       render.JSONObject `json:"by" doc:"values of --by"`
	Count    uint64            `json:"count" doc:"number of events"`
	// DetachedAt is the time when the probe was detached to keep the budget: later events are
	// not counted.
	DetachedAt *time.Time `json:"detached_at,omitempty" doc:"when the budget detached the probe"`
}

// NewJSONHead returns the first part of the object of a row that is printed now, with its values of
// the expressions by.
func NewJSONHead(r *Row[Probe], by []string) JSONHead {
	return JSONHead{
		time.Now().UTC(), r.Of.Provider, r.Of.Name, r.By(by), r.Count, r.Detached.JSON(),
	}
}

// JSONCount is a row of count in JSON.
type JSONCount struct {
	JSONHead
	Sum *big.Int `json:"sum,omitempty" doc:"of the values of --sum"`
}

// JSONHistogram is a row of hist in JSON.
type JSONHistogram struct {
	JSONHead
	render.JSONHistogram
}

// encode writes an object for each row.
func (c *reporter) encode(rows []*Row[Probe]) error {
	encoder := render.NewEncoder(c.Out)
	for _, r := range rows {
		head := NewJSONHead(r, c.options.By)
		var object any
		switch {
		case c.options.Buckets != nil:
			object = JSONHistogram{head, r.Histogram(c.options.Buckets).JSON()}
		case c.options.sums():
			object = JSONCount{head, r.sum().Int()}
		default:
			object = JSONCount{JSONHead: head}
		}
		if err := encoder.Encode(object); err != nil {
			return err
		}
	}
	return nil
}
