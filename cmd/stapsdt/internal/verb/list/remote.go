package list

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/remote"
)

// runRemote shows the probes that a program lists at an address. The program does not list their
// sites.
func runRemote(ctx context.Context, to *console.Console, text string, o Options) error {
	if o.Verbose {
		return query.Usagef("-v shows the sites of files, but %s lists none", "http://…")
	}
	address, err := remote.ParseAddress(text)
	if err != nil {
		return query.Usagef("%w", err)
	}
	listing, err := remote.NewClient(address).Probes(ctx)
	if err != nil {
		return err
	}
	shown := false
	out := &printer{Writer: bufio.NewWriter(to.Out), Options: &o}
	for _, p := range listing.Providers {
		if len(p.Probes) == 0 {
			continue
		}
		slices.SortFunc(
			p.Probes, func(a, b remote.Probe) int { return cmp.Compare(a.Name, b.Name) },
		)
		file := p.Path
		if !p.Loaded {
			file = "not loaded"
		}
		out.group(fmt.Sprintf("%s (process %d)", file, listing.PID), nil, remoteProbes(listing.PID, &p))
		shown = true
	}
	if !shown {
		return fmt.Errorf("%w: the program at %s has no probes", query.ErrNothing, address)
	}
	return out.Flush()
}

// remoteProbes returns the probes of a provider. Their sites are not known.
func remoteProbes(pid int, p *remote.Provider) (all []*probe) {
	for i := range p.Probes {
		r := &p.Probes[i]
		one := &probe{JSONProbe: JSONProbe{
			File: p.Path, Provider: p.Name, Probe: r.Name, PIDs: []int{pid}, Args: []argument{},
			Sites: []site{}, Semaphore: new(bool), Traced: &r.Traced,
		}}
		for _, a := range r.Args {
			one.Args = append(one.Args, argument{a.Name, a.Type})
		}
		if r.Sites > 1 {
			one.notes = append(one.notes, fmt.Sprintf("%d sites", r.Sites))
		}
		if r.Traced {
			one.notes = append(one.notes, "traced now")
		}
		all = append(all, one)
	}
	return all
}
