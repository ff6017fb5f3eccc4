package tree

import (
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
)

// JSONTree is a tree in JSON. The operations are a list, each after its parent, because a hostile
// program can make a tree deeper than JSON parsers allow.
type JSONTree struct {
	Time time.Time `json:"time"`
	// Since is the time from which on a live stream knows every operation that has begun.
	Since       *time.Time    `json:"since,omitempty"`
	Operation   string        `json:"operation"`
	Nanoseconds time.Duration `json:"nanoseconds"`
	PID         uint32        `json:"pid"`
	*render.PodName
	Failed     bool       `json:"failed"`
	Operations []jsonNode `json:"operations"`
	// Parent is the ID of the root's parent, which is not in the tree, or 0.
	Parent  uint64 `json:"parent"`
	Dropped int    `json:"dropped"`
	Lost    uint64 `json:"lost"`
	Partial bool   `json:"partial"`
}

type jsonNode struct {
	ID          uint64            `json:"id"`
	Parent      uint64            `json:"parent"`
	Depth       int               `json:"depth"`
	Operation   string            `json:"operation"`
	Start       time.Duration     `json:"start"` // relative to the start of the root
	Nanoseconds time.Duration     `json:"nanoseconds"`
	Own         time.Duration     `json:"own"`
	Part        float64           `json:"part"`
	TID         uint32            `json:"tid,omitempty"`
	Goroutine   uint64            `json:"goroutine,omitempty"`
	Ended       bool              `json:"ended"`
	Unwound     bool              `json:"unwound,omitempty"` // it ended without a return, after nanoseconds at the latest
	Unknown     bool              `json:"end_may_be_lost,omitempty"`
	Failed      bool              `json:"failed"`
	Args        render.JSONObject `json:"args"`
	Result      render.JSONObject `json:"result"`
}

// encode writes a tree of a stream as an object, with its pod if the stream has several.
func (t *tree) encode(w io.Writer, s *events.Stream) error {
	root := t.root
	var of *render.PodName
	if p := root.process.Process; s.Pods && p != nil && p.Pod != nil {
		of = render.NewPodName(p.Pod)
	}
	j := JSONTree{
		root.at.UTC(), s.Past.JSON(), root.name, root.took, root.pid, of, t.failed, nil,
		root.parent, t.dropped, t.lost, t.partial,
	}
	t.root.walk(func(n *node, depth int) {
		took := n.end(root) - n.since
		j.Operations = append(j.Operations, jsonNode{
			n.id, n.parent, depth, n.name, n.since - root.since, took, n.own(root), float64(took) / float64(max(root.took, 1)),
			n.tid, n.goroutine, n.ended, n.unwound, !n.ended && !n.unwound && !n.isOpen(), n.failed,
			evaluate.Object(n.arguments()), evaluate.Object(n.results()),
		})
	})
	return render.NewEncoder(w).Encode(j)
}
