//go:build linux

package run

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// files, processes and kernel are a machine with one process, which has mapped one file, and whose
// kernel attaches late.
type (
	files struct {
		engine.Files
		file *target.File
	}
	processes struct{ engine.Everyone }
	kernel    struct {
		engine.Kernel
		late chan func(engine.Links, error)
	}
)

func (f files) Process(int) (uses []target.Use, skipped, err error) {
	return []target.Use{{File: f.file}}, nil, nil
}
func (f files) Order(pids []int) []int { return pids }
func (f files) Reconsider()            {}
func (f files) Recheck()               {}

func (processes) List() ([]int, error) { return []int{1}, nil }

func (kernel) Load(*bpf.Probe, *target.File, []*bpf.Section) (engine.Program, error) {
	return io.NopCloser(nil), nil
}
func (kernel) PerFile(*bpf.Probe) bool                           { return false }
func (kernel) PerProcess() bool                                  { return true }
func (kernel) Shape(*bpf.Probe, []*bpf.Section) (string, uint64) { return "", 0 }

func (k kernel) Attach(_ engine.Program, _ *target.File, _ []engine.Site, _ int, late func(engine.Links, error)) (engine.Links, error) {
	k.late <- late
	return nil, stall.ErrLate
}

// subscriber takes all probes.
type subscriber struct{}

func (subscriber) Section(*bpf.Probe) (*bpf.Section, error) { return &bpf.Section{}, nil }
func (subscriber) Problem(error)                            {}

// command is a COMMAND that is held, and notes how many sites are attached to when it is released.
type command struct {
	query.Command
	run      *Run
	attached []int
}

func (c *command) Release() error {
	c.attached = append(c.attached, c.run.subscription.Sites())
	return nil
}

func (command) Ended() bool { return false }
func (command) Leave()      {}

// hold returns a run with a COMMAND that is held, because the kernel attaches late.
func hold(t *testing.T) (r *Run, c *command, attaching chan func(engine.Links, error)) {
	selector := probes.NewSelector(querytest.Specs("app:a"))
	file := &target.File{Path: "/app", Probes: []sdt.Site{{Provider: "app", Name: "a"}}}
	attaching = make(chan func(engine.Links, error), 1)
	r = &Run{Console: &console.Console{Err: &bytes.Buffer{}}}
	var err error
	r.engine, err = engine.New(engine.Options{
		Files: files{file: file}, Kernel: kernel{late: attaching}, Processes: processes{},
		Scan: true, Skips: &target.Skips{}, Problem: r.Problem,
	})
	require.NoError(t, err)
	t.Cleanup(func() { r.engine.Close() })
	r.exits = newExits(r)
	r.cost, err = newCost(r, bpf.Kernel{})
	require.NoError(t, err)
	c = &command{run: r}
	r.Command = c
	r.subscription = r.engine.Add(subscriber{}, engine.Selection{Selector: selector})
	_, err = r.engine.Scan()
	require.NoError(t, err)
	return r, c, attaching
}

// TestRelease: a COMMAND that is attached to late runs when it is attached to, and waits until then.
func TestRelease(t *testing.T) {
	r, c, attaching := hold(t)
	require.NoError(t, r.release())
	require.Empty(t, c.attached)

	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	late := <-attaching
	go late(engine.Links{}, nil)
	released := until(func() bool { return len(c.attached) > 0 })
	require.NoError(t, r.engine.Run(ctx, watched{released, r}))
	require.NoError(t, ctx.Err())
	require.NoError(t, r.release())
	require.Equal(t, []int{1}, c.attached)
}

// TestNotReleased: a run that ends before its COMMAND is attached to reports that it was not run.
func TestNotReleased(t *testing.T) {
	r, c, _ := hold(t)
	err := r.Wait(t.Context(), until(func() bool { return true }))
	require.EqualError(t, err, "the COMMAND was not run, because it was not attached to yet")
	require.Empty(t, c.attached)
}

// until is a Ticker that ends when it returns true.
type until func() bool

func (until) FDs() []int { return nil }

func (u until) Tick() (time.Duration, bool, error) { return 10 * time.Millisecond, !u(), nil }
