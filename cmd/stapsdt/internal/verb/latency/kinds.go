package latency

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// operation is a kind of operation, which is the subject of a row.
type operation struct {
	start, end string
	unfit      bool    // all starts or all ends lack what the expressions use: it is not shown
	fit        [2]bool // a start and an end have everything
}

// take notes whether a start or an end has everything that the expressions use. Programs of several
// versions may have the same operation.
func (o *operation) take(isStart bool, err error) {
	side := &o.fit[1]
	if isStart {
		side = &o.fit[0]
	}
	*side = *side || err == nil
	o.unfit = (o.unfit || err != nil) && !(o.fit[0] && o.fit[1])
}

// String returns both probes, with their common file only once. For a function it returns its name.
func (o *operation) String() string {
	if o.end == o.start+spec.ReturnSuffix {
		return o.start
	}
	end := o.end
	if file := strings.LastIndexByte(o.start, '/'); file >= 0 {
		file += strings.IndexByte(o.start[file:], ':') + 1
		end = strings.TrimPrefix(end, o.start[:file])
	}
	return o.start + " → " + end
}

// kinds lists the kinds of operations, by their IDs.
type kinds struct {
	*pairs
	all []*operation
}

// find returns the ID of the kind of operation that a probe starts or ends. The probe has the form
// PROVIDER:NAME.
func (k *kinds) find(probe string, isStart bool) (uint32, error) {
	o := &operation{start: k.start.String(), end: k.end.String()}
	switch {
	case k.functions:
		o.start = strings.TrimSuffix(probe, spec.ReturnSuffix)
		o.end = o.start + spec.ReturnSuffix
	case k.named && isStart:
		o.start = probe
		o.end = strings.TrimSuffix(o.start, "start") + "end"
	case k.named:
		o.end = probe
		o.start = strings.TrimSuffix(strings.TrimSuffix(o.end, "end"), "done") + "start"
	}
	known := slices.IndexFunc(k.all, func(known *operation) bool {
		return known.start == o.start && known.end == o.end || k.named && known.start == o.start
	})
	if known >= 0 {
		if k.named && !isStart { // the end is __end or __done, whichever exists
			k.all[known].end = o.end
		}
		return uint32(known), nil
	}
	if len(k.all) == query.MaxKinds {
		return 0, fmt.Errorf("too many different operations: at most %d are measured at a time", query.MaxKinds)
	}
	k.all = append(k.all, o)
	return uint32(len(k.all) - 1), nil
}
