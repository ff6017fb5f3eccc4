//go:build linux

package list

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
)

// runRemote shows the probes that a program lists at an address. The program does not list their sites.
func runRemote(ctx context.Context, to *console.Console, text string, o Options) error {
	if o.Verbose {
		return console.Usagef("-v shows the sites of files, and %s lists none", "http://…")
	}
	address, err := remote.ParseAddress(text)
	if err != nil {
		return console.Usagef("%w", err)
	}
	listing, err := remote.NewClient(address).Probes(ctx)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(to.Out)
	shown := false
	for _, p := range listing.Providers {
		if len(p.Probes) == 0 {
			continue
		}
		slices.SortFunc(p.Probes, func(a, b remote.Probe) int { return cmp.Compare(a.Name, b.Name) })
		if o.JSON {
			err = remoteJSON(out, listing.PID, p)
		} else {
			if shown {
				fmt.Fprintln(out)
			}
			remoteText(out, listing.PID, p)
		}
		if err != nil {
			return err
		}
		shown = true
	}
	if !shown {
		return fmt.Errorf("%w: the program at %s has no probes", probes.ErrNothing, address)
	}
	return out.Flush()
}

func remoteText(out *bufio.Writer, pid int, p remote.Provider) {
	file := render.Printable(p.Path)
	if !p.Loaded {
		file = "not loaded"
	}
	fmt.Fprintf(out, "%s (process %d)\n", file, pid)
	for _, probe := range p.Probes {
		var args, notes []string
		for _, a := range probe.Args {
			args = append(args, a.Name+" "+a.Type)
		}
		if probe.Sites > 1 {
			notes = append(notes, fmt.Sprintf("%d sites", probe.Sites))
		}
		if probe.Traced {
			notes = append(notes, "traced now")
		}
		line := fmt.Sprintf("  %s:%s(%s)", p.Name, probe.Name, strings.Join(args, ", "))
		if len(notes) > 0 {
			line += "  # " + strings.Join(notes, ", ")
		}
		fmt.Fprintln(out, render.Printable(line))
	}
}

// remoteJSON prints the same objects as for a file, but without sites.
func remoteJSON(out *bufio.Writer, pid int, p remote.Provider) error {
	encoder := render.NewEncoder(out)
	for _, probe := range p.Probes {
		traced := probe.Traced
		j := jsonProbe{
			File: p.Path, Provider: p.Name, Probe: probe.Name, PIDs: []int{pid}, Args: []jsonArg{}, Sites: []jsonSite{}, Traced: &traced,
		}
		for _, a := range probe.Args {
			j.Args = append(j.Args, jsonArg{a.Name, a.Type})
		}
		if err := encoder.Encode(j); err != nil {
			return err
		}
	}
	return nil
}
