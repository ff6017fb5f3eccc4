//go:build unix

package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
)

const (
	// lastSilence is silence for the attempt to resume a stream after the user has ended the run.
	lastSilence = 3 * time.Second
	// resumePause is the pause before each attempt to resume a stream.
	resumePause = 250 * time.Millisecond
)

// Tests shorten these.
var (
	// resumeTime is the time for which a pod records without a connection.
	resumeTime = inpod.ResumeTime
	// silence is the time after which a connection without frames is lost. A pod sends ten of them
	// a second.
	silence = 10 * time.Second
)

// stream is the stream of a replica, over one connection after another.
type stream struct {
	*replicas
	member   *member
	subject  *subject
	at       *place
	asked    *replay.Replica
	token    string              // of the request, or "" if it ends with its connection
	position *mirror.Position    // after the frames that have come
	begin    func(replay.Update) // is called with the first frame
	began    bool
}

// receive passes on the frames of one connection, at whose other end a command reads the greeting.
// The error is nil if the last frame has come.
func (r *stream) receive(words []string, greeting []byte) (frames int, err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer from.Close()
	said := &held{}
	one := &session{kubectl: r.kubectl, out: to, problems: &filter{to: said}}
	err = one.start(words)
	to.Close()
	if err != nil {
		return 0, err
	}
	_, _ = one.input.Write(greeting) // after an error, no frame comes
	if mayBegin := r.enter(r.member, one); !mayBegin && r.began && r.ctx.Err() == nil {
		one.stop() // the rest is wanted
	} else if !mayBegin {
		one.release()
	}
	in := bufio.NewReader(from)
	frames, err = r.read(one, in, said)
	switch {
	case err == nil || r.ctx.Err() != nil:
		one.release()
		_, _ = io.Copy(io.Discard, in) // otherwise kubectl could end before it has sent the line
	case r.began: // the request may go on without this connection
		one.input.Close()
	default:
		one.release()
	}
	from.Close()
	status, waited := one.wait()
	r.leave(r.member)
	switch {
	case err == nil, !errors.Is(err, io.EOF):
	case r.ctx.Err() != nil:
		err = r.ctx.Err()
	case waited != nil:
		err = waited
	case status != 0:
		err = errStatus(status, said.last())
	default:
		err = errLost
	}
	return frames, err
}

// read passes on frames until the last one, and the messages that come with them.
func (r *stream) read(one *session, in *bufio.Reader, said *held) (frames int, err error) {
	waits := func() bool { return true }
	if !r.began {
		waits = context.AfterFunc(r.search, one.release)
	}
	defer waits()
	for {
		frame, err := r.next(one, in)
		if err != nil {
			return frames, err
		}
		waits()
		if frames++; frames == 1 {
			said.pass(r.message)
			if r.began {
				r.whileRunning("%s is watched again", r.member.name)
			}
		}
		if err := r.pass(frame); err != nil || frame.Last() {
			return frames, err
		}
	}
}

// next reads a frame. It kills kubectl if none comes from a stream that can be resumed.
func (r *stream) next(one *session, in *bufio.Reader) (*mirror.Frame, error) {
	if r.token == "" || !r.began { // it may take long to begin
		return mirror.Read(in)
	}
	patience := silence
	if r.search.Err() != nil {
		patience = lastSilence
	}
	stop := afterRunning(patience, one.kill)
	frame, err := mirror.Read(in)
	if isSilent := stop(); isSilent && err != nil {
		err = fmt.Errorf("%w: nothing has come for %v", errLost, patience)
	}
	return frame, err
}

// afterRunning calls do after this process has run for a time, unless stop is called before, which
// reports whether do was called. A process that Ctrl-Z has stopped reads nothing, but its clock
// goes on, so the time consists of parts that have to pass one after another.
func afterRunning(patience time.Duration, do func()) (stop func() (called bool)) {
	const parts = 4
	var mu sync.Mutex
	mu.Lock()
	defer mu.Unlock()
	left := parts
	var timer *time.Timer
	timer = time.AfterFunc(patience/parts, func() {
		mu.Lock()
		defer mu.Unlock()
		if left--; left > 0 {
			timer.Reset(patience / parts)
		} else if left == 0 {
			do()
		}
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		called := left <= 0
		left = 0
		return called
	}
}

// pass passes on a frame.
func (r *stream) pass(frame *mirror.Frame) error {
	if r.token != "" {
		if err := r.position.Take(frame); err != nil {
			r.token = "" // no position is known
			return err
		}
	}
	u := replay.Update{Replica: r.asked, Frame: frame}
	if r.began {
		return r.update(u)
	}
	r.began = true
	r.begin(u)
	return nil
}

// isLost reports whether an error means that a connection was lost while its request may go on.
func (r *stream) isLost(err error) bool {
	return err != nil && r.token != "" && r.began && !isFinal(err)
}

// isFinal reports whether an error means that no other connection would help.
func isFinal(err error) bool {
	return errors.As(err, new(*podsError)) || errors.Is(err, context.Canceled) ||
		errors.Is(err, errNotFound) || errors.Is(err, errForbidden) || errors.Is(err, errKilled)
}

// resume resumes the stream after each loss of its connection. If it cannot, it returns the error
// of the loss.
func (r *stream) resume(lost error) error {
	for {
		if runs, known := r.runs(); known && !runs {
			return lost
		}
		r.whileRunning("%s: %v; its events are kept there for %v", r.member.name, lost, resumeTime)
		frames, err := r.reconnect()
		switch {
		case frames == 0:
			return lost
		case !r.isLost(err):
			return err
		}
		lost = err
	}
}

// reconnect tries to connect to the request until frames come. After the user has ended the run, it
// tries once, so that the rest comes and the request ends.
func (r *stream) reconnect() (frames int, err error) {
	words := slices.Concat(r.at.exec(), []string{binary, inpod.Verb, inpod.Resume})
	greeting := append([]byte(r.token+"\n"), r.position.Frame()...)
	for lost := time.Now(); time.Since(lost) < resumeTime; {
		select {
		case <-r.search.Done():
			return r.receive(words, greeting)
		case <-time.After(resumePause):
		}
		runs, known := r.runs()
		switch {
		case !known:
			continue
		case !runs:
			return 0, nil
		}
		frames, err = r.receive(words, greeting)
		if frames > 0 || isFinal(err) {
			break
		}
	}
	return frames, err
}

// runs reports whether the container and the place of the request still run, if that is known.
func (r *stream) runs() (runs, known bool) {
	now, err := r.kubectl.life(r.search, r.subject)
	return now != nil && (r.at.agent || now.isRunning(r.at.container)), err == nil
}
