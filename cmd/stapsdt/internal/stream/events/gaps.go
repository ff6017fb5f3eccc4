package events

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// gaps collects the losses of pods: the events that they have lost, and the times when they were
// not watched.
type gaps struct {
	all  []replay.Gap
	open map[recording.Pod]int // the indexes of gaps that have not ended
	lost map[render.PodName]uint64
}

func newGaps() gaps {
	return gaps{open: map[recording.Pod]int{}, lost: map[render.PodName]uint64{}}
}

// begin records that a pod is not watched any longer although it runs.
func (g *gaps) begin(pod *recording.Pod, from time.Duration) {
	if pod != nil {
		g.open[*pod] = len(g.all)
		since := time.Unix(0, int64(from)).UTC()
		g.all = append(g.all, replay.Gap{PodName: *render.NewPodName(pod), From: since})
	}
}

// end records that a pod is watched.
func (g *gaps) end(pod *recording.Pod, to time.Duration) {
	if pod == nil {
		return
	}
	if i, ok := g.open[*pod]; ok {
		g.all[i].To = time.Unix(0, int64(to)).UTC()
		delete(g.open, *pod)
	}
}

// endAll records the end of the run.
func (g *gaps) endAll() {
	for pod := range g.open {
		g.end(&pod, time.Duration(time.Now().UnixNano()))
	}
}

// Losses names the pods whose events are missing.
func (f *replicas) Losses() replay.Losses {
	all := f.Reader.Losses()
	lost := maps.Clone(f.gaps.lost)
	for key, r := range f.all {
		if r.file != nil && key.Pod != nil && r.file.Lost() > 0 {
			lost[*render.NewPodName(key.Pod)] += r.file.Lost()
		}
	}
	for name, n := range lost {
		all.Pods = append(all.Pods, replay.PodLoss{PodName: name, Lost: n})
	}
	slices.SortFunc(all.Pods, func(a, b replay.PodLoss) int { return a.Compare(b.PodName) })
	f.gaps.endAll()
	all.Unwatched = slices.Clone(f.gaps.all)
	slices.SortStableFunc(all.Unwatched, func(a, b replay.Gap) int {
		return cmp.Or(a.From.Compare(b.From), a.Compare(b.PodName))
	})
	return all
}
