package list

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// probe is a listed probe of a file, a recording, a page or a socket. It is an object of list -o json.
type probe struct {
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

	notes  []string // remarks of the text format
	sites  []sdt.Site
	traced int // the number of sites to which a tracer is attached
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
)

func newSite(s *sdt.Site) site {
	one := site{Offset: s.Offset, Semaphore: s.SemaphoreOffset, Operands: []string{}}
	for _, a := range s.Args {
		one.Operands = append(one.Operands, a.String())
	}
	return one
}

// arguments returns the arguments of a site.
func arguments(s *sdt.Site) []argument {
	all := make([]argument, len(s.Args))
	for i, a := range s.Args {
		all[i] = argument{a.Name, text.TypeName(a)}
	}
	return all
}

// jsonPod is the container of a process in a pod.
type jsonPod struct {
	PID int `json:"pid"`
	render.PodName
}

// printer prints groups of probes.
type printer struct {
	*bufio.Writer
	*Options
	began bool
}

// group prints probes, in the text format with a heading and lines that describe where they are. Flush returns an error.
func (o *printer) group(heading string, lines []string, probes []*probe) {
	if o.Format.IsJSON() {
		encoder := render.NewEncoder(o)
		for _, p := range probes {
			_ = encoder.Encode(p)
		}
		return
	}
	o.heading(heading)
	for _, line := range lines {
		fmt.Fprintln(o, "  "+render.Printable(line))
	}
	for _, p := range probes {
		fmt.Fprintln(o, render.Printable(p.text()))
		if o.Verbose {
			o.sites(p)
		}
	}
}

// heading prints the heading of a group.
func (o *printer) heading(text string) {
	if o.began {
		fmt.Fprintln(o)
	}
	o.began = true
	fmt.Fprintln(o, render.Printable(text))
}

// mapped returns the heading of a file that processes have mapped.
func mapped(path string, pids []int) string {
	if len(pids) == 0 {
		return path
	}
	return path + " (" + text.Processes(pids) + ")"
}

func (p *probe) text() string {
	var args []string
	for _, a := range p.Args {
		args = append(args, strings.TrimPrefix(a.Name+" "+a.Type, " "))
	}
	line := fmt.Sprintf("  %s:%s(%s)", p.Provider, p.Probe, strings.Join(args, ", "))
	if len(p.notes) > 0 {
		line += "  # " + strings.Join(p.notes, ", ")
	}
	return line
}

// sites prints the sites of a probe.
func (o *printer) sites(p *probe) {
	for _, s := range p.sites {
		fmt.Fprintf(o, "      at %#x", s.Offset)
		if s.SemaphoreOffset != 0 {
			fmt.Fprintf(o, ", semaphore %#x", s.SemaphoreOffset)
		}
		for _, a := range s.Args {
			fmt.Fprintf(o, " %s", render.Printable(a.String()))
		}
		fmt.Fprintln(o)
		for i, a := range s.Args {
			if a.Err != nil {
				fmt.Fprintf(o, "      argument %d cannot be read: %v\n", i, a.Err)
			}
		}
	}
}
