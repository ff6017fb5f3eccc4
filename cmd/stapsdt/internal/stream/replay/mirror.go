package replay

import (
	"io"
	"math"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// AddMirror adds the mirror of a recording on another machine, with a name for messages. The
// recording may have the events of several processes of a pod. The events of all recordings are
// ordered by the time of day, because each machine has a CLOCK_MONOTONIC of its own.
func (r *Reader) AddMirror(memory io.ReaderAt, name string, pod *recording.Pod) (*File, error) {
	reader, err := recording.NewReader(memory)
	if err != nil {
		return nil, err
	}
	f := &File{Path: name, Reader: reader, Process: &Process{Pod: pod}, close: func() {}}
	reader.SetProcess(&recording.Process{Pod: pod})
	r.realtime = true
	r.add(f)
	return f, nil
}

// Limit lets More find no event of the file that is later than a time by the CLOCK_MONOTONIC of
// its machine. math.MaxInt64 is no limit.
func (f *File) Limit(until time.Duration) { f.limit = until }

func (f *File) until() time.Duration {
	if f.limit == 0 {
		return math.MaxInt64
	}
	return f.limit
}

// CheckFits returns an error if the expressions fit none of the selected probes that are known.
func (r *Reader) CheckFits() error {
	if r.selected > r.unfit.Probes || r.selected == 0 {
		return nil
	}
	return query.Usagef("%w", r.unfit.Err())
}

// Gone returns the number of events that removed recordings had lost.
func (r *Reader) Gone() uint64 { return r.gone }
