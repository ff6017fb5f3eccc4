// Package postmortem shows on one screen what a program was doing when it ended: what its recording
// tells, and what the system knows of its end.
package postmortem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/ending"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
)

// Options select the recording and the output.
type Options struct {
	// Of names the recording: it is a path, a PID, the name of a program or of a unit, a pod, or ""
	// for the newest of the machine.
	Of string
	// From has the path of the recording, if Of is "".
	From replay.From
	// Container is what Kubernetes tells about the container, as ending.ParseContainer takes it, or
	// "".
	Container string
	Format    query.Format
}

// subject is the recording that is shown.
type subject struct {
	path string
	file *os.File // nil if path is not open yet
	// owner is the user who has made the file, if it is another one than this process has: a
	// recording tells what its user likes.
	owner string
	// unit is the systemd unit that ran the process, or "" if it is unknown.
	unit string
	// notes are lines about other recordings that the user may have meant.
	notes     []string
	container *ending.Container // nil without Kubernetes
	command   string            // the command that reads recordings, with the pod after the verb
}

// Run shows what a recording tells about the end of its process.
func Run(ctx context.Context, to *console.Console, o Options) error {
	s, err := o.subject()
	if err != nil {
		return err
	}
	if s.file == nil {
		if s.file, err = replay.OpenPath(s.path); err != nil {
			return err
		}
	}
	s.owner = ownerOf(s.file)
	last, err := lastEvent(s.file)
	if err != nil {
		s.file.Close()
		return fmt.Errorf("%s: %w", s.path, err)
	}
	replay.SetFile(s.file)
	reader, err := replay.Open(replay.From{Paths: []string{s.path}}, nil, "", nil)
	if err != nil {
		return err
	}
	defer reader.Close()
	reader.Begin(to)
	g := newGatherer(last)
	damage := g.read(ctx, reader)
	r := newReport(s, g, reader)
	if o.Format.IsJSON() {
		err = render.NewEncoder(to.Out).Encode(r.json())
	} else {
		var b bytes.Buffer
		r.text(&b, console.Columns(to.Out))
		_, err = to.Out.Write(b.Bytes())
	}
	return errors.Join(err, damage)
}

// subject finds the recording.
func (o *Options) subject() (s *subject, err error) {
	switch {
	case o.Of != "" && o.From.Given(), len(o.From.Paths) > 1:
		return nil, query.Usagef("postmortem shows one recording: give one FILE")
	case o.From.Given() && len(o.From.Paths) == 0:
		return nil, query.Usagef("postmortem reads a recording: give FILE")
	case o.From.Given():
		s = &subject{path: o.From.Paths[0]}
	default:
		if s, err = find(o.Of); err != nil {
			return nil, err
		}
	}
	if o.Container != "" {
		if s.container, err = ending.ParseContainer(o.Container); err != nil {
			return nil, query.Usagef("%w", err)
		}
	}
	return s, nil
}
