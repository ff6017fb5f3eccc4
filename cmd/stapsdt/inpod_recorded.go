//go:build linux

package main

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/list"

	"github.com/spf13/cobra"
)

// recordedFlags adds the flags of the commands that read recordings of a container.
func recordedFlags(c *cobra.Command, r *inpod.Recorded) {
	c.Flags().BoolVar(&r.Mounted, "mounted", false, "the container does not run, and its volumes are mounted here")
	c.Flags().StringVar(&r.Variable, "record", "", "its `VALUE` of STAPSDT_RECORD")
	c.Flags().StringVar(&r.From, "from", "", "the `PATH` or the name of a recording")
	c.Flags().BoolVar(&r.Kept, "kept", false, "hold the recording of an earlier process, by default the latest")
	c.Flags().BoolVar(&r.Newest, "newest", false, "read the recording that tells most of the end of a program")
}

// lookAt returns the answer of look.
func lookAt(a *inpod.Allowance, r *inpod.Recorded) (*inpod.Answer, error) {
	if r.Mounted {
		return r.LookAtMounts()
	}
	return inpod.Look(a.Container, a.Alone)
}

// rootsOf returns the first processes of a container, or none if it does not run.
func rootsOf(a *inpod.Allowance, r *inpod.Recorded) ([]int, error) {
	if r.Mounted {
		return nil, nil
	}
	return inpod.Find(a.Container, a.Alone)
}

// verbFor returns the command line of a verb for a container or for a recording of it. It returns
// nil after it has listed the recordings of a container that does not run.
func verbFor(
	to *console.Console, a *inpod.Allowance, r *inpod.Recorded, args []string,
) ([]string, error) {
	pids, err := rootsOf(a, r)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Given():
		f, err := r.Open(pids)
		if err != nil {
			return nil, err
		}
		replay.SetFile(f)
		return slices.Insert(args, 1, "--from="+f.Name()), nil
	case r.Mounted:
		all, err := r.All(nil)
		if err != nil {
			return nil, err
		}
		format := query.Text
		if slices.Contains(args, "--output="+query.JSON.Word()) {
			format = query.JSON
		}
		return nil, list.Recorded(to, all, format)
	}
	var words []string
	for _, pid := range pids {
		words = append(words, strconv.Itoa(pid))
	}
	return slices.Insert(args, 1, "--pid="+strings.Join(words, ",")), nil
}

// holdKept keeps the recording of an earlier process open until it was fetched.
func holdKept(to *console.Console, a *inpod.Allowance, r *inpod.Recorded) error {
	pids, err := rootsOf(a, r)
	if err != nil {
		return err
	}
	f, err := r.Open(pids)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := inpod.CheckKept(f); err != nil {
		return err
	}
	_, gone := inpod.ReadInput(os.Stdin)
	to.Stay()
	return inpod.Hold(gone, to.Out, f)
}
