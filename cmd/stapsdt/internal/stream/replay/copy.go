package replay

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Copy copies the next events of a file, as recording.Reader.Copy does, after Next has returned an
// event of it. It copies none if there is a condition or a Pairing. The caller adds the Targets of
// the selected probes.
func (r *Reader) Copy(
	f *File, room []byte, to *recording.Destination,
) (size int, events uint64, err error) {
	if r.where != "" || r.Pairs() {
		return 0, 0, nil
	}
	for i := len(to.Targets); i < len(f.Probes()); i++ {
		to.Targets = append(to.Targets, recording.Target{})
		if !f.filter(r, uint32(i)).Selected {
			to.Targets[i] = recording.Skip
		}
	}
	size, events, err = f.Reader.Copy(room, to)
	if err != nil {
		r.active, r.taken = r.active[1:], false
		return size, events, fmt.Errorf("%s: %w", f.Path, err)
	}
	return size, events, nil
}
