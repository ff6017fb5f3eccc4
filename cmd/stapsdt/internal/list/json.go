//go:build linux

package list

import (
	"bufio"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// The objects of list -o json.
type (
	jsonProbe struct {
		File      string     `json:"file"`
		Provider  string     `json:"provider"`
		Probe     string     `json:"probe"`
		Args      []jsonArg  `json:"args"`
		Sites     []jsonSite `json:"sites"`
		Semaphore bool       `json:"semaphore"`
		PIDs      []int      `json:"pids"`
		// Listening lists the processes that can be watched without root.
		Listening []int `json:"listening,omitempty"`
		// Recordings are the files to which the processes record.
		Recordings []Recording `json:"recordings,omitempty"`
		// Pods lists the containers of the processes that are in a pod.
		Pods []jsonPod `json:"pods,omitempty"`
		// Traced is null if it is unknown.
		Traced *bool `json:"traced"`
	}
	jsonArg struct {
		Name string `json:"name,omitempty"`
		Type string `json:"type"`
	}
	jsonSite struct {
		Offset    uint64   `json:"offset"`
		Semaphore uint64   `json:"semaphore,omitempty"`
		Operands  []string `json:"operands"`
	}
)

func (l *lister) json(out *bufio.Writer, f *target.File, probes []*listedProbe) error {
	encoder := render.NewEncoder(out)
	for _, lp := range probes {
		first := lp.sites[0]
		j := jsonProbe{
			File: f.Path, Provider: first.Provider, Probe: first.Name, Semaphore: lp.semaphore(),
			PIDs: slices.Concat([]int{}, lp.pids), Listening: l.listeningOf(lp.pids), Recordings: l.recordingOf(lp.pids), Pods: l.podsOf(lp.pids), Args: []jsonArg{},
		}
		for _, a := range first.Args {
			j.Args = append(j.Args, jsonArg{a.Name, spec.TypeName(a)})
		}
		for _, site := range lp.sites {
			s := jsonSite{Offset: site.Offset, Semaphore: site.SemaphoreOffset, Operands: []string{}}
			for _, a := range site.Args {
				s.Operands = append(s.Operands, a.String())
			}
			j.Sites = append(j.Sites, s)
		}
		if lp.known {
			traced := len(lp.traced) > 0
			j.Traced = &traced
		}
		if err := encoder.Encode(j); err != nil {
			return err
		}
	}
	return nil
}
