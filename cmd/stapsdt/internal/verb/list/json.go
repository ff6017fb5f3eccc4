package list

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// JSONProbe is a probe in JSON.
type JSONProbe struct {
	File       string                 `json:"file,omitempty" doc:"path of the file of the probe, or of the recording"`
	Socket     string                 `json:"socket,omitempty" doc:"path of the socket, if no file has the probe"`
	Provider   string                 `json:"provider" doc:"name"`
	Probe      string                 `json:"probe" doc:"name"`
	Args       []argument             `json:"args" doc:"arguments"`
	Sites      []site                 `json:"sites,omitzero" doc:"places of the probe"`
	Semaphore  *bool                  `json:"semaphore,omitempty" doc:"whether a site has one"`
	PIDs       []int                  `json:"pids" doc:"processes"`
	Listening  []int                  `json:"listening,omitzero" doc:"processes that can be watched without root"`
	Recordings []recordings.Recording `json:"recordings,omitempty" doc:"of the processes"`
	Pods       []jsonPod              `json:"pods,omitempty" doc:"of the processes"`
	Traced     *bool                  `json:"traced" doc:"whether a tracer is attached, or null if unknown"`
	Events     *uint64                `json:"events,omitempty" doc:"number in the recording"`
}

type (
	argument struct {
		Name string `json:"name,omitempty" doc:"of the argument"`
		Type string `json:"type" doc:"of the argument"`
	}
	site struct {
		Offset    uint64   `json:"offset" doc:"offset in the file; of the instruction"`
		Semaphore uint64   `json:"semaphore,omitempty" doc:"offset in the file; of the semaphore"`
		Operands  []string `json:"operands" doc:"where the arguments are"`
	}
	variable struct {
		argument
		Error string `json:"error,omitempty" doc:"why it is not read"`
		Old   string `json:"old,omitempty" doc:"why its value may be old"`
	}
	// jsonPod is the container of a process in a pod.
	jsonPod struct {
		PID int `json:"pid" doc:"process"`
		render.PodName
	}
)

// JSONFunction is a function in JSON.
type JSONFunction struct {
	File           string   `json:"file" doc:"of the program"`
	Provider       string   `json:"provider" doc:"go"`
	Probe          string   `json:"probe" doc:"name"`
	Signature      string   `json:"signature,omitempty" doc:"arguments and results"`
	Source         string   `json:"source" doc:"source file"`
	Line           int      `json:"line" doc:"in the source file"`
	Place          string   `json:"place" doc:"instruction of the probe" enum:"entry push branch statement"`
	Offset         uint64   `json:"offset" doc:"offset in the file; of the instruction"`
	Returns        []uint64 `json:"returns" doc:"offsets in the file; of its return instructions"`
	ReturnsError   string   `json:"returns_error,omitempty" doc:"why returns have no probe"`
	ArgumentsError string   `json:"arguments_error,omitempty" doc:"why arguments are not shown"`
	Inlined        int      `json:"inlined" doc:"number of functions that are known to have inlined it"`
	// In, Loop and Stepped are those of a line.
	In      []string `json:"in,omitempty" doc:"of a line: the function that has it, and those that have inlined that"`
	Loop    bool     `json:"loop,omitempty" doc:"the line can be executed again before the function returns"`
	Stepped bool     `json:"stepped,omitempty" doc:"the kernel single-steps the instruction of the line"`
	Refused string   `json:"refused,omitempty" doc:"why the kernel does not trace the instruction of the line"`
	// Variables are those that a line can use.
	Variables []variable `json:"variables,omitempty" doc:"of a line"`
	PIDs      []int      `json:"pids" doc:"processes"`
}
