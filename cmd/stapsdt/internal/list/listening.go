//go:build linux

package list

import (
	"bufio"
	"fmt"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/socket"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// listener is a process that listens.
type listener struct {
	*socket.Process
	path string // path of its socket, if it has answered
	// probes are the probes that only its socket shows, and no file.
	probes []*recording.Probe
}

// listeners returns the listening processes of the target, sorted by PID.
func (l *lister) listeners() (all []*listener) {
	if l.target.All {
		for _, p := range socket.Processes() {
			all = append(all, &listener{Process: p})
		}
	}
	now, _ := l.target.Now()
	for _, pid := range now.PIDs {
		if p, err := socket.Find(pid); err == nil {
			all = append(all, &listener{Process: p})
		}
	}
	slices.SortStableFunc(all, func(a, b *listener) int { return a.PID - b.PID })
	return all
}

// ask asks the listeners for probes that no file of theirs shows: probes of providers that are not loaded, and of
// processes whose files are not accessible.
func ask(all []*listener, found *probes.Found) {
	shown := map[string]bool{}
	for _, f := range found.Files {
		for _, u := range found.Uses[f] {
			for _, p := range f.Probes {
				shown[fmt.Sprintf("%d %s:%s", u.PID, p.Provider, p.Name)] = true
			}
		}
	}
	answers := make(chan func(), len(all))
	var dialer socket.Dialer
	for _, one := range all {
		dialer.Do(one.Process, func() {
			c, err := one.Dial()
			answers <- func() {
				if err != nil {
					return // doctor explains why
				}
				defer c.Close()
				one.path = c.Path()
				one.probes = slices.DeleteFunc(c.Probes, func(p *recording.Probe) bool {
					return !one.Elsewhere && shown[fmt.Sprintf("%d %s:%s", one.PID, p.Provider, p.Name)]
				})
			}
		})
	}
	late := time.After(askPatience)
	for range all {
		select {
		case take := <-answers:
			take()
		case <-late:
			return
		}
	}
}

// askPatience is how long all listeners together may take to answer.
const askPatience = 5 * time.Second

// pids returns the PID of the listener, or none if the listener is in another PID namespace.
func (one *listener) pids() []int {
	if one.Elsewhere {
		return []int{}
	}
	return []int{one.PID}
}

// text shows the probes that only the socket shows.
func (one *listener) text(out *bufio.Writer) {
	fmt.Fprintf(out, "%v, by its socket\n", one.Process)
	for _, p := range one.probes {
		fmt.Fprintln(out, render.Printable(fmt.Sprintf("  %s:%s(%s)", p.Provider, p.Name, replay.Signature(p))))
	}
}

// socketProbe is the JSON object of a probe that only a socket shows.
type socketProbe struct {
	Socket     render.JSONText `json:"socket"`
	Provider   render.JSONText `json:"provider"`
	Probe      render.JSONText `json:"probe"`
	PIDs       []int           `json:"pids"`
	Listening  []int           `json:"listening"`
	Recordings []Recording     `json:"recordings,omitempty"`
	Args       []jsonArg       `json:"args"`
}

func (one *listener) json(out *bufio.Writer, recordings []Recording) error {
	encoder := render.NewEncoder(out)
	for _, p := range one.probes {
		j := socketProbe{
			Socket: render.JSONText(one.path), Provider: render.JSONText(p.Provider), Probe: render.JSONText(p.Name),
			PIDs: one.pids(), Listening: one.pids(), Recordings: recordings, Args: jsonArgs(p),
		}
		if err := encoder.Encode(j); err != nil {
			return err
		}
	}
	return nil
}
