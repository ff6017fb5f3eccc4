package debugprobe

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/described"
)

// listing is the answer of probes.json.
type listing struct {
	PID       int    `json:"pid"`
	Program   string `json:"program"`
	Go        string `json:"go"`
	Viewers   int    `json:"viewers"`
	Most      int    `json:"max_viewers"`
	Recorders int    `json:"recorders"` // the number of flight recorders
	// Recordings are the numbers, from 1, of the recorders that recording.rec serves.
	Recordings []int           `json:"recordings"`
	Providers  []*providerInfo `json:"providers"`
}

type providerInfo struct {
	Name   string       `json:"name"`
	Loaded bool         `json:"loaded"`
	Path   string       `json:"path,omitempty"`
	Probes []*probeInfo `json:"probes"`
}

type probeInfo struct {
	Name    string    `json:"name"`
	Args    []argInfo `json:"args"`
	Sites   int       `json:"sites"`
	Traced  bool      `json:"traced"`
	Enabled bool      `json:"enabled"` // traced or observed
}

type argInfo struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

func (f *flight) serveList(w http.ResponseWriter, r *http.Request) error {
	l := listing{
		PID: os.Getpid(), Program: program(), Go: runtime.Version(), Viewers: int(viewers.Load()),
		Most: maxViewers, Recorders: len(f.recorders), Recordings: f.recordings(),
		Providers: []*providerInfo{},
	}
	for _, p := range stapsdt.Providers() {
		l.Providers = append(l.Providers, describe(p))
	}
	w.Header().Set("Content-Type", "application/json")
	writeJSON(w, l)
	return nil
}

func program() string {
	file, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Base(file)
}

// describe describes a provider. The sites of one name are one probe.
func describe(p *stapsdt.Provider) *providerInfo {
	info := &providerInfo{
		Name: p.Name(), Loaded: p.Loaded(), Path: p.Path(), Probes: []*probeInfo{},
	}
	byName := map[string]*probeInfo{}
	for _, probe := range p.Probes() {
		i := byName[probe.Name()]
		if i == nil {
			i = &probeInfo{Name: probe.Name(), Args: []argInfo{}}
			for _, a := range described.Probe(probe).Args {
				i.Args = append(i.Args, argInfo{a.Name, a.Kind.Sent(a.Type)})
			}
			byName[i.Name] = i
			info.Probes = append(info.Probes, i)
		}
		i.Sites++
		i.Traced = i.Traced || probe.Traced()
		i.Enabled = i.Enabled || probe.Enabled()
	}
	return info
}

// positions are the names of arguments without names.
var positions = [stapsdt.MaxArgs]string{"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9", "arg10", "arg11"}
