package latency

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"

// unpaired describes the unpaired events of a kind of operation.
type unpaired struct {
	starts, ends uint64 // starts without an end, and ends without a start
	open         int
	unknown      int // starts whose end may have been lost
	// oldest are at most maxOpenShown: open operations, then operations that may be open.
	oldest []*pairing.Operation
}

// add adds an operation that has not ended.
func (u *unpaired) add(o *pairing.Operation) {
	if o.IsOpen() {
		u.open++
	} else {
		u.unknown++
	}
	if len(u.oldest) < maxOpenShown {
		u.oldest = append(u.oldest, o)
	}
}

// maxOpenShown is the maximum number of open operations that are shown. The longest open are shown.
const maxOpenShown = 10
