//go:build linux

package list

import (
	"errors"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// listener is a process that listens.
type listener struct {
	*socket.Process
	path string // path of its socket, if it has answered
	// offers has the names of the probes that its socket shows.
	offers map[string]bool
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
	now, _ := probes.Now(&l.target)
	for _, pid := range proc.Family(now.PIDs) {
		if p, err := socket.Find(pid); err == nil {
			all = append(all, &listener{Process: p})
		}
	}
	slices.SortStableFunc(all, func(a, b *listener) int { return a.PID - b.PID })
	return all
}

// ask requests from the listeners the probes that none of their files shows: probes of providers
// that are not loaded, and of processes whose files are not accessible. It returns an error for
// each whose socket was deleted.
func ask(all []*listener, found *probes.Found) (deleted []error) {
	type place struct {
		pid             int
		provider, probe string
	}
	shown := map[place]bool{}
	for _, f := range found.Files {
		for _, u := range found.Uses[f] {
			for _, p := range f.Probes {
				shown[place{u.PID, p.Provider, p.Name}] = true
			}
		}
	}
	answers := make(chan func(), len(all))
	var dialer socket.Dialer
	for _, one := range all {
		dialer.Do(one.Process, func() {
			c, err := one.Dial()
			answers <- func() {
				if errors.Is(err, socket.ErrDeleted) {
					deleted = append(deleted, err)
				}
				if err != nil {
					return // doctor explains why
				}
				defer c.Close()
				one.path, one.offers = c.Path(), map[string]bool{}
				for _, p := range c.Probes {
					one.offers[p.Provider+":"+p.Name] = true
				}
				one.probes = slices.DeleteFunc(c.Probes, func(p *recording.Probe) bool {
					return !one.Elsewhere && shown[place{one.PID, p.Provider, p.Name}]
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
			return deleted
		}
	}
	return deleted
}

// askPatience is the time that all listeners together may take to answer.
const askPatience = 5 * time.Second

// pids returns the PID of the listener, or none if the listener is in another PID namespace.
func (one *listener) pids() []int {
	if one.Elsewhere {
		return []int{}
	}
	return []int{one.PID}
}

// shown returns the probes that only the socket shows.
func (one *listener) shown(recorded []recordings.Recording) (all []*probe) {
	for _, p := range one.probes {
		shown := newProbe(p, one.pids()...)
		shown.Socket, shown.Listening, shown.Recordings = one.path, one.pids(), recorded
		all = append(all, shown)
	}
	return all
}

// listeningOf returns the processes among pids whose sockets show a probe.
func (l *lister) listeningOf(pids []int, probe string) (listening []int) {
	for _, one := range l.listening {
		if one.offers[probe] && !one.Elsewhere && slices.Contains(pids, one.PID) {
			listening = append(listening, one.PID)
		}
	}
	return listening
}
