package list

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// probe is a listed probe of a file, a recording, a page or a socket.
type probe struct {
	JSONProbe

	key    string   // the provider and the name
	notes  []string // remarks of the text format
	sites  []*sdt.Site
	traced int // the number of sites to which a tracer is attached
}

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

// printer prints groups of probes.
type printer struct {
	*bufio.Writer
	*Options
	began bool
}

// group prints probes, in the text format with a heading and lines that describe where they are.
// Flush returns an error.
func (o *printer) group(heading string, lines []string, probes []*probe) {
	if o.Format.IsJSON() {
		encoder := render.NewEncoder(o)
		for _, p := range probes {
			_ = encoder.Encode(&p.JSONProbe)
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
