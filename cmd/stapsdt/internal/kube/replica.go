//go:build unix

package kube

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
)

// follow asks a pod for its events, and passes on its frames until it has ended. begin is called
// with the first one. The error is nil if the pod has sent all of its events.
func (f *replicas) follow(m *member, s *subject, begin func(outcome)) error {
	at, err := f.locate(f.search, s)
	if err != nil {
		return err
	}
	asked := s.replica(at.limit)
	words := f.words(at, s, asked.Bytes)
	asked.Bytes = recorder.Size(recorder.Chunks(asked.Bytes))
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer from.Close()
	said := &held{}
	one := &session{kubectl: f.kubectl, out: to, problems: &filter{to: said}}
	err = one.start(words)
	to.Close()
	if err != nil {
		return err
	}
	if !f.enter(m, one) {
		one.release()
	}
	frames := bufio.NewReader(from)
	waits := context.AfterFunc(f.search, one.release)
	frame, err := mirror.Read(frames)
	began := err == nil
	if waits(); began {
		said.pass(&podMessages{f, m.name})
		begin(outcome{pod: m.name, Update: replay.Update{Replica: asked, Frame: frame}})
	}
	for err == nil && !frame.Last() {
		if frame, err = mirror.Read(frames); err == nil {
			err = f.update(replay.Update{Replica: asked, Frame: frame})
		}
	}
	one.release()
	if err != nil {
		from.Close() // the command in the pod may go on to send
	}
	status, waited := one.wait()
	f.leave(m)
	if began {
		_ = f.update(replay.Update{Replica: asked})
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, io.EOF):
		return err
	case waited != nil:
		return waited
	case status != 0:
		return errStatus(status, said.last())
	}
	return errLost
}

// enter makes the session of a member known, and reports whether it may begin.
func (f *replicas) enter(m *member, s *session) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.session = s
	return !f.stopped
}

func (f *replicas) leave(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.session = nil
}

// podMessages prints the messages of the command in a pod. With -v, each pod prints its own;
// otherwise, a message of several pods is printed once.
type podMessages struct {
	*replicas
	pod string
}

func (p *podMessages) Write(line []byte) (int, error) {
	text := trimLine(string(line))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.request.values["verbose"] == "" && p.said[text] {
		return len(line), nil
	}
	p.said[text] = true
	p.to.Warn("%s: %s", p.pod, text)
	return len(line), nil
}
