package list

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// JSONProbe is a probe in JSON.
type JSONProbe struct {
	File     string     `json:"file,omitempty"`
	Socket   string     `json:"socket,omitempty"`
	Provider string     `json:"provider"`
	Probe    string     `json:"probe"`
	Args     []argument `json:"args"`
	Sites    []site     `json:"sites,omitzero"`
	// Semaphore reports whether one of the sites has a semaphore.
	Semaphore *bool `json:"semaphore,omitempty"`
	PIDs      []int `json:"pids"`
	// Listening lists the processes that can be watched without root.
	Listening []int `json:"listening,omitzero"`
	// Recordings are the files to which the processes record.
	Recordings []recordings.Recording `json:"recordings,omitempty"`
	// Pods lists the containers of the processes that are in a pod.
	Pods []jsonPod `json:"pods,omitempty"`
	// Traced is nil if it is unknown.
	Traced *bool `json:"traced"`
	// Events is the number of events in a recording.
	Events *uint64 `json:"events,omitempty"`
}

type (
	argument struct {
		Name string `json:"name,omitempty"`
		Type string `json:"type"`
	}
	site struct {
		Offset    uint64   `json:"offset"`
		Semaphore uint64   `json:"semaphore,omitempty"`
		Operands  []string `json:"operands"`
	}
	// jsonPod is the container of a process in a pod.
	jsonPod struct {
		PID int `json:"pid"`
		render.PodName
	}
)

// JSONFunction is a function in JSON.
type JSONFunction struct {
	File      string `json:"file"`
	Provider  string `json:"provider"`
	Probe     string `json:"probe"`
	Signature string `json:"signature,omitempty"`
	Source    string `json:"source"`
	Line      int    `json:"line"`
	// Place is push, entry or branch.
	Place          string   `json:"place"`
	Offset         uint64   `json:"offset"`
	Returns        []uint64 `json:"returns"`
	ReturnsError   string   `json:"returns_error,omitempty"`
	ArgumentsError string   `json:"arguments_error,omitempty"`
	// Inlined is the number of functions that are known to have inlined it.
	Inlined int   `json:"inlined"`
	PIDs    []int `json:"pids"`
}
