package latency

import (
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
)

// unpaired describes the unpaired events of a kind of operation.
type unpaired struct {
	starts, ends uint64 // starts without an end, and ends without a start
	open         int
	unknown      int // starts whose end may have been lost
	// oldest are at most maxOpenShown: open operations, then operations that may be open.
	oldest []*pairing.Operation
}

// add adds an operation that has not ended, after those that began earlier.
func (u *unpaired) add(o *pairing.Operation) {
	if at, isShown := u.count(o.IsOpen()); isShown {
		u.show(at, o)
	}
}

// count counts an operation that has not ended. It returns the place for show if the operation is
// shown: only those that are need to be made.
func (u *unpaired) count(isOpen bool) (at int, isShown bool) {
	at = len(u.oldest)
	if isOpen {
		at = min(u.open, at)
		u.open++
	} else {
		u.unknown++
	}
	return at, at < maxOpenShown
}

// show shows an operation that was counted.
func (u *unpaired) show(at int, o *pairing.Operation) {
	u.oldest = slices.Insert(u.oldest, at, o)
	u.oldest = u.oldest[:min(len(u.oldest), maxOpenShown)]
}

// maxOpenShown is the maximum number of open operations that are shown. The longest open are shown.
const maxOpenShown = 10
