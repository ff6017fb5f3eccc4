package tree

import (
	"encoding/json"
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
)

// JSONTree is a tree in JSON. The operations are a list, each after its parent, because a hostile
// program can make a tree deeper than JSON parsers allow.
type JSONTree struct {
	Time        time.Time     `json:"time" doc:"of its start"`
	Since       *time.Time    `json:"since,omitempty" doc:"operations begun since are known; only of live streams"`
	Operation   string        `json:"operation" doc:"PROVIDER:NAME"`
	Nanoseconds time.Duration `json:"nanoseconds" doc:"duration, in nanoseconds"`
	PID         uint32        `json:"pid" doc:"process"`
	*render.PodName
	Failed     bool       `json:"failed" doc:"whether any operation failed"`
	Operations []jsonNode `json:"operations" doc:"root first; each after its parent"`
	Parent     uint64     `json:"parent" doc:"0 if none; ID of an operation that is not in the tree"`
	Dropped    int        `json:"dropped" doc:"operations without room; the tree is too large"`
	Lost       uint64     `json:"lost" doc:"number of events while it was open"`
	Partial    bool       `json:"partial" doc:"events are missing; the recording has lost them"`
}

// JSONParts is an operation and those within it in JSON, for Parts.
type JSONParts struct {
	Time        time.Time     `json:"time" doc:"of its start"`
	Operation   string        `json:"operation" doc:"PROVIDER:NAME"`
	Nanoseconds time.Duration `json:"nanoseconds" doc:"duration, in nanoseconds"`
	Failed      bool          `json:"failed" doc:"whether any operation failed"`
	Operations  []JSONPart    `json:"operations" doc:"root first; each after its parent"`
	Dropped     int           `json:"dropped" doc:"operations without room; the tree is too large"`
	Partial     bool          `json:"partial" doc:"events are missing; the recording has lost them"`
}

type jsonNode struct {
	JSONPart
	Unwound bool `json:"unwound,omitempty" doc:"without a return; it ended after nanoseconds at the latest"`
}

// JSONPart is an operation in a tree in JSON.
type JSONPart struct {
	ID          uint64            `json:"id" doc:"of a span, as its arguments have it"`
	Key         json.RawMessage   `json:"key,omitempty" doc:"an array of several; what start and end have in common, unless it is the ID"`
	Parent      uint64            `json:"parent" doc:"0 if none; ID of the operation that it is a part of"`
	Depth       int               `json:"depth" doc:"0 for the root"`
	Operation   string            `json:"operation" doc:"PROVIDER:NAME"`
	Start       time.Duration     `json:"start" doc:"after the root's, in nanoseconds; its beginning"`
	Nanoseconds time.Duration     `json:"nanoseconds" doc:"duration, in nanoseconds"`
	Own         time.Duration     `json:"own" doc:"without parts, in nanoseconds; the time in which no part was open"`
	Part        float64           `json:"part" doc:"of the root; of its duration, from 0 to 1"`
	TID         uint32            `json:"tid,omitempty" doc:"thread"`
	Goroutine   uint64            `json:"goroutine,omitempty" doc:"ID of the goroutine"`
	Ended       bool              `json:"ended" doc:"whether its end was seen"`
	Unknown     bool              `json:"end_may_be_lost,omitempty" doc:"whether it may have ended"`
	Failed      bool              `json:"failed" doc:"whether it failed"`
	Args        render.JSONObject `json:"args" doc:"arguments of the start"`
	Result      render.JSONObject `json:"result" doc:"of the end; arguments that the start does not have"`
}

// key returns the key of an operation as JSON, or nil for a call, or if the key is the ID.
func (n *node) key() json.RawMessage {
	if n.start == nil || n.start.Key.IsID() {
		return nil
	}
	return n.start.Key.ForJSON()
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
	root.walk(func(n *node, depth int) {
		j.Operations = append(j.Operations, jsonNode{n.json(root, depth), n.unwound})
	})
	return render.NewEncoder(w).Encode(j)
}

// json converts an operation of a tree to JSON.
func (n *node) json(root *node, depth int) JSONPart {
	took := n.end(root) - n.since
	return JSONPart{
		n.id, n.key(), n.parent, depth, n.name, n.since - root.since, took, n.own(root),
		float64(took) / float64(max(root.took, 1)),
		n.tid, n.goroutine, n.ended, !n.ended && !n.unwound && !n.isOpen(), n.failed,
		evaluate.Object(n.arguments()), evaluate.Object(n.results()),
	}
}
