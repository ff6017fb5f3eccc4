//go:build unix

package kube

import (
	"crypto/rand"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
)

// follow asks a pod for its events, and passes on its frames until it has ended. begin is called
// with the first one. The error is nil if the pod has sent all of its events, or has ended.
func (f *replicas) follow(m *member, s *subject, begin func(replay.Update)) error {
	at, err := f.locate(f.search, s)
	if err != nil {
		return err
	}
	r := &stream{
		replicas: f, member: m, subject: s, at: at, asked: s.replica(at.limit),
		begin: begin,
	}
	words := f.words(at, s, r.asked.Bytes)
	r.asked.Bytes = recorder.Size(recorder.Chunks(r.asked.Bytes))
	var greeting []byte
	if at.resumes {
		r.token, r.position = rand.Text(), mirror.NewPosition(r.asked.Bytes)
		greeting = []byte(r.token + "\n")
	}
	if _, err = r.receive(words, greeting); r.isLost(err) {
		err = r.resume(err)
	}
	if r.began {
		if err != nil && f.hasEnded(s) {
			err = nil
		}
		_ = f.update(replay.Update{Replica: r.asked, Unwatched: err != nil})
	}
	return err
}

// enter makes the session of a member known, and reports whether it may begin.
func (f *replicas) enter(m *member, s *session) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.session = s; f.killed {
		s.kill()
	}
	return !f.stopped
}

func (f *replicas) leave(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.session = nil
}

// message prints a message of the command in the pod. With -v, each pod prints its own; otherwise,
// a message of several pods is printed once.
func (r *stream) message(text string) {
	if r.isNew(text) || r.request.values["verbose"] != "" {
		r.warn("%s: %s", r.member.name, text)
	}
}
