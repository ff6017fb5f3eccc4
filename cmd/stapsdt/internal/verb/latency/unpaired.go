package latency

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"

// unpaired describes the unpaired events of a kind of operation.
type unpaired struct {
	starts, ends uint64 // starts without an end, and ends without a start
	open         int
	unknown      int // starts whose end may have been lost
	// oldest are at most maxOpenShown: open operations, then operations that may be open.
	oldest []*replay.Operation
}

// maxOpenShown is the maximum number of open operations that are shown. The longest open are shown.
const maxOpenShown = 10
