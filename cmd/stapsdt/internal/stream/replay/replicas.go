package replay

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Replicas are pods that send their recordings.
type Replicas interface {
	// Record lets each pod record the events that a configuration selects. It returns the first
	// frames of those that exist, after all have begun or have failed. The channel has the further
	// updates, also of pods that begin later. It is an error if none has begun.
	Record(to *console.Console, config *query.Config) ([]Update, <-chan Update, error)
	// Stop ends all recordings. Their rests follow, and then the channel is closed.
	Stop()
	// Close ends everything at once.
	Close()
}

// Replica is a pod that sends a recording.
type Replica struct {
	// Name names the pod in messages.
	Name string
	Pod  *recording.Pod
	// Bytes is the maximum size of the recording.
	Bytes int64
}

// Update is a frame of a replica's recording, or its end.
type Update struct {
	*Replica
	Frame *mirror.Frame // nil at the end
	// Unwatched means, at the end, that the pod still runs.
	Unwatched bool
}
