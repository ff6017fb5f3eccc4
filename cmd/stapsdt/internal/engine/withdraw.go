//go:build linux

package engine

import ()

// Withdraw detaches the programs of some probes, by their bpf.Probe.Key. They are not attached again,
// whatever is found later.
func (e *Engine) Withdraw(keys map[string]bool) error {
	for _, all := range e.loaded {
		for _, p := range all {
			p.withdrawn = p.withdrawn || keys[p.probe.Key()]
		}
	}
	var links Links
	for _, f := range e.files {
		for _, a := range f.attachments {
			links = append(links, a.withdraw()...)
		}
	}
	return links.Close()
}

// withdraw returns the links of the groups whose programs are withdrawn, for the caller to close.
func (a *attachment) withdraw() (all Links) {
	for i, g := range a.groups {
		if !g.withdrawn {
			continue
		}
		for _, l := range a.links {
			if i < len(l.parts) {
				all = append(all, l.parts[i])
			}
		}
		g.add(-g.attached)
	}
	return all
}
