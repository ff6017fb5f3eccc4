//go:build unix

package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// pollInterval is the interval between two looks for other pods.
	pollInterval = 2 * time.Second
	// maxRetry is the longest time after which a pod that could not be asked is asked again.
	maxRetry = 30 * time.Second
	// stopGrace is the time that pods have to send the rest of their events. The command has more.
	stopGrace = 10 * time.Second
	// closeGrace is the time that the commands in pods have to end before their connections do.
	closeGrace = 2 * time.Second
	// replicaBytes is the size of the recording of a pod, unless an eighth of its memory is less.
	replicaBytes = 4 << 20
	// replicaText is the number of bytes of a text that a pod sends.
	replicaText = 4000
)

// replicas are the pods of a selection. It is a replay.Replicas.
type replicas struct {
	fan
	to      *console.Console
	flags   []string // of the verb record in the pods
	specs   []string
	ctx     context.Context // of everything
	cancel  context.CancelFunc
	search  context.Context // of searches for pods and places
	cease   context.CancelFunc
	updates chan replay.Update
	group   sync.WaitGroup // of all goroutines that send updates

	mu      sync.Mutex
	members map[string]*member
	stopped bool
	said    map[string]bool
}

// member is a container of a pod.
type member struct {
	name    string
	session *session  // nil unless it sends
	busy    bool      // a goroutine asks it
	tries   int       // how often it was asked in vain, or for a short time
	next    time.Time // when it may be asked again
}

func newReplicas(k *kubectl, r *Request) *replicas {
	f := &replicas{
		fan:     newFan(k, r, nil, nil),
		updates: make(chan replay.Update), members: map[string]*member{}, said: map[string]bool{},
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.search, f.cease = signal.NotifyContext(f.ctx, ends...)
	return f
}

// recordFlags returns the flags of the verb record in the pods.
func (f *replicas) recordFlags(config *query.Config) []string {
	flags := []string{"--" + inpod.Increments, fmt.Sprintf("--strlen=%d", replicaText)}
	if config.Where != "" {
		flags = append(flags, "--where="+config.Where)
	}
	for _, name := range []string{"via", "budget", "verbose"} {
		if value := f.request.values[name]; value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	for _, spec := range slices.Sorted(maps.Keys(config.Others)) {
		flags = append(flags, "--"+inpod.Alternative+"="+spec+"="+config.Others[spec])
	}
	return flags
}

// Record implements replay.Replicas.
func (f *replicas) Record(
	to *console.Console, config *query.Config,
) (first []replay.Update, updates <-chan replay.Update, err error) {
	f.to, f.err, f.specs, f.flags = to, to.Err, config.Specs, f.recordFlags(config)
	all, err := f.kubectl.running(f.search, &f.request.selection)
	if err != nil {
		return nil, nil, &podsError{console.ErrorText(err), statusOf(err)}
	}
	outcomes := make(chan outcome)
	for i := range all {
		f.ask(&all[i], func(o outcome) { outcomes <- o })
	}
	var failed []podError
	for range all {
		if o := <-outcomes; o.err == nil {
			first = append(first, o.Update)
		} else {
			failed = append(failed, podError{o.pod, o.err})
		}
	}
	say := func(one podError) { f.say("%s: %s", one.pod, console.ErrorText(one.err)) }
	if len(first) == 0 {
		err := f.request.selection.none(failed, say)
		return nil, nil, &podsError{console.ErrorText(err), statusOf(err)}
	}
	for _, one := range failed {
		say(one)
	}
	f.group.Go(f.poll)
	go func() {
		f.group.Wait()
		close(f.updates)
	}()
	return first, f.updates, nil
}

// say prints a message, unless it was printed before.
func (f *replicas) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.said[line] {
		f.said[line] = true
		f.to.Warn("%s", line)
	}
}

// poll asks the pods that come later, and those again that could not be asked.
func (f *replicas) poll() {
	for {
		select {
		case <-f.search.Done():
			return
		case <-time.After(pollInterval):
		}
		all, err := f.kubectl.running(f.search, &f.request.selection)
		if f.search.Err() != nil {
			return
		}
		if err != nil {
			f.say("other pods are not found: %s", console.ErrorText(err))
			continue
		}
		for i := range all {
			f.ask(&all[i], f.joined)
		}
	}
}

// joined takes the outcome of a pod that was asked later.
func (f *replicas) joined(o outcome) {
	if o.err != nil {
		f.say("%s: %s", o.pod, console.ErrorText(o.err))
		return
	}
	f.to.Warn("%s has joined", o.pod)
	_ = f.update(o.Update)
}

// update passes on an update, unless the run has ended.
func (f *replicas) update(u replay.Update) error {
	select {
	case f.updates <- u:
		return nil
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
}

// outcome is the first frame of a pod, or why there is none.
type outcome struct {
	pod string
	replay.Update
	err error
}

// ask asks a pod, unless it sends already or has failed a moment ago, and passes on the outcome.
func (f *replicas) ask(p *pod, tell func(outcome)) {
	s, err := p.choose(f.request.selection.container)
	key := p.String()
	if err == nil {
		key += "/" + s.id()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[key]
	if m == nil {
		m = &member{name: p.String()}
		f.members[key] = m
	}
	if m.busy || f.stopped || time.Now().Before(m.next) {
		return
	}
	m.busy = true
	f.group.Go(func() {
		began := time.Time{}
		if err == nil {
			err = f.follow(m, s, func(o outcome) { began = time.Now(); tell(o) })
		}
		switch {
		case began.IsZero():
			tell(outcome{pod: m.name, err: err})
		case err == nil || f.hasEnded(s):
			f.whileRunning("%s has ended", m.name)
		default:
			f.whileRunning("%s is no longer watched: %s", m.name, console.ErrorText(err))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if m.tries++; time.Since(began) > maxRetry && !began.IsZero() {
			m.tries = 1
		}
		m.busy, m.session = false, nil
		m.next = time.Now().Add(min(pollInterval<<min(m.tries, 10), maxRetry))
	})
}

// hasEnded reports whether a container does not run any longer.
func (f *replicas) hasEnded(s *subject) bool {
	now, err := f.kubectl.pod(f.search, s.Metadata.Namespace, s.Metadata.Name)
	if err != nil {
		return errors.Is(err, errNotFound)
	}
	same, err := now.choose(s.container.Name)
	return now.Metadata.Deletion != "" || err != nil || same.id() != s.id()
}

// whileRunning prints a message about a pod, unless all pods are ended.
func (f *replicas) whileRunning(format string, args ...any) {
	if f.search.Err() == nil {
		f.to.Warn(format, args...)
	}
}

// replica returns the recording that a pod is asked for.
func (s *subject) replica(limit int64) *replay.Replica {
	bytes := int64(replicaBytes)
	if limit > 0 {
		bytes = max(minSize, min(bytes, limit/memoryShare))
	}
	pod := &recording.Pod{
		Namespace: s.Metadata.Namespace, Name: s.Metadata.Name, Container: s.container.Name,
	}
	return &replay.Replica{Name: s.String(), Pod: pod, Bytes: bytes}
}

// words returns the arguments of kubectl exec.
func (f *replicas) words(at *place, s *subject, bytes int64) []string {
	size := "--" + sizeFlag + "=" + strconv.FormatInt(bytes, 10)
	return slices.Concat(at.ask(s), []string{"--", "record", size}, f.flags, []string{"--"}, f.specs)
}

// Stop implements replay.Replicas.
func (f *replicas) Stop() {
	f.cease()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for _, m := range f.members {
		if m.session != nil {
			m.session.stop()
		}
	}
	time.AfterFunc(stopGrace, f.kill)
}

// kill ends the connections to all pods.
func (f *replicas) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if m.session != nil {
			m.session.kill()
		}
	}
}

// Close implements replay.Replicas.
func (f *replicas) Close() {
	f.cancel()
	f.mu.Lock()
	f.stopped = true
	for _, m := range f.members {
		if m.session != nil {
			m.session.release()
		}
	}
	f.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		f.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeGrace):
		f.kill()
	}
}
