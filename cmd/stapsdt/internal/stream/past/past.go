//go:build linux

// Package past reads the events that processes have recorded before their events come from another
// source, so that a command knows the operations that were open when it began.
package past

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	processes "github.com/go-stapsdt/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Recording is the recording of a process that is watched. Its events have the process's PID.
type Recording struct {
	*recording.Reader
	file  *recordings.Live
	specs []spec.Spec
	whole bool // STAPSDT_RECORD began it: it has all probes of its process
	// isLate reports whether the time for reading is over.
	isLate func() bool
}

var (
	errNone = errors.New("no recording has the events")
	errSlow = errors.New("reading the recordings takes too long")
)

// isSlow reports whether there was no time to read a recording that a process may write.
func isSlow(err error) bool { return errors.Is(err, errSlow) || errors.Is(err, stall.Err) }

// open opens the recording that a process writes, for the probes that the specs name. The error is
// errNone if there is none, or if it cannot answer the specs: a recording does not have the files
// of probes, and a process may have another clock. It is a stall.Err if a file system does not
// answer.
func open(pid int, specs []spec.Spec) (*Recording, error) {
	offset := func(process string) time.Duration { return processes.ClockOffset(process, "monotonic") }
	hasFile := func(s spec.Spec) bool { return s.File != "" }
	if offset(strconv.Itoa(pid)) != offset("self") || slices.ContainsFunc(specs, hasFile) {
		return nil, errNone
	}
	r := &Recording{specs: specs}
	var err error
	if r.file, err = recordings.Written(pid); r.file == nil {
		return nil, cmp.Or(err, errNone)
	}
	r.whole = proc.Environment(pid)(recording.Variable) != ""
	if r.Reader, err = replay.NewPart(r.file, r.file.Size); err != nil {
		r.Close()
		return nil, err
	}
	r.SetProcess(&recording.Process{PID: uint32(pid)})
	return r, nil
}

// Each calls take with each event of the selected probes until a time of CLOCK_MONOTONIC. Another
// call continues with the later events that were written until then. It does not end with the run,
// because the events that the run has seen are worth little without these. It returns an error when
// the budget of the Reader is spent.
func (r *Recording) Each(until time.Duration, take func(*recording.Event) error) error {
	if _, err := r.MoreUntil(until, true); err != nil {
		return err
	}
	for n := 1; n%1024 != 0 || !r.isLate(); n++ {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = r.pass(e, take)
		}
		if err != nil {
			return err
		}
	}
	return errSlow
}

// pass passes on an event of a selected probe.
func (r *Recording) pass(e *recording.Event, take func(*recording.Event) error) error {
	selects := func(s spec.Spec) bool { return s.Match(e.Probe.Provider, e.Probe.Name) }
	if !slices.ContainsFunc(r.specs, selects) {
		return nil
	}
	return take(e)
}

// Since returns the times, by CLOCK_MONOTONIC and CLOCK_REALTIME, from which on the recording has
// every event. ok is false if it may lack any.
func (r *Recording) Since() (since time.Duration, at time.Time, ok bool) {
	since, realtime, ok := r.Reader.Since()
	return since, time.Unix(0, realtime), ok
}

// Has reports whether the recording is known to have the fires of some probes, PROVIDER:NAME. A
// program can record some of its providers only, and a probe is named when it fires first.
func (r *Recording) Has(probes ...string) bool {
	return r.whole || !slices.ContainsFunc(probes, func(name string) bool {
		return !slices.ContainsFunc(r.Probes(), func(p *recording.Probe) bool {
			return p.Provider+":"+p.Name == name
		})
	})
}

// Close closes the file. Since remains valid.
func (r *Recording) Close() { r.file.Close() }
