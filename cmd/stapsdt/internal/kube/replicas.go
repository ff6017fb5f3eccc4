//go:build unix

package kube

import (
	"context"
	"fmt"
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
	// closeGrace is the time that the commands in pods have to end before their connections do.
	closeGrace = 2 * time.Second
	// replicaBytes is the size of the recording of a pod, unless an eighth of its memory is less.
	replicaBytes = 4 << 20
	// replicaText is the number of bytes of a text that a pod sends.
	replicaText = 4000
)

// stopGrace is the time that pods have to send the rest of their events. The command has more.
// Tests shorten it.
var stopGrace = 10 * time.Second

// replicas are the pods of a selection. It is a replay.Replicas.
type replicas struct {
	*fan
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
	killed  bool // the connections were ended, and no other may follow
}

// member is a container of a pod.
type member struct {
	name    string
	session *session  // nil unless it sends
	busy    bool      // a goroutine asks it
	tries   int       // how often it was asked in vain, or for a short time
	next    time.Time // when it may be asked again
}

func newReplicas(of *fan) *replicas {
	f := &replicas{fan: of, updates: make(chan replay.Update), members: map[string]*member{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.search, f.cease = signal.NotifyContext(f.ctx, console.Ends()...)
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
	for _, one := range config.Specs {
		if other := one.Other.String(); other != "" {
			flags = append(flags, "--"+inpod.Alternative+"="+one.String()+"="+other)
		}
	}
	return flags
}

// Record implements replay.Replicas.
func (f *replicas) Record(
	to *console.Console, config *query.Config,
) (first []replay.Update, updates <-chan replay.Update, err error) {
	f.warn, f.specs, f.flags = to.Warn, nil, f.recordFlags(config)
	for _, one := range config.Specs {
		f.specs = append(f.specs, one.String())
	}
	all, err := f.pods(f.search)
	if err != nil {
		return nil, nil, err
	}
	err = f.each(all, func(i int) error {
		told := make(chan error, 1)
		f.begin(&all[i], func(u replay.Update, err error) {
			if err == nil {
				f.mu.Lock()
				first = append(first, u)
				f.mu.Unlock()
			}
			told <- err
		})
		return <-told
	})
	if err != nil {
		return nil, nil, err
	}
	f.group.Go(f.poll)
	go func() {
		f.group.Wait()
		close(f.updates)
	}()
	return first, f.updates, nil
}

// poll asks pods that appear later, and asks again those that could not be asked.
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
			f.say("new pods cannot be found: %v", err)
			continue
		}
		for i := range all {
			f.begin(&all[i], func(u replay.Update, err error) {
				if err != nil {
					f.say("%v: %v", &all[i], err)
					return
				}
				f.warn("%v has joined", &all[i])
				_ = f.update(u)
			})
		}
	}
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

// begin asks a pod, unless it sends already or has failed a moment ago. It calls tell with the
// first frame, or with the error if there is none.
func (f *replicas) begin(p *pod, tell func(replay.Update, error)) {
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
			err = f.follow(m, s, func(u replay.Update) { began = time.Now(); tell(u, nil) })
		}
		switch {
		case began.IsZero():
			tell(replay.Update{}, err)
		case err == nil:
			f.whileRunning("%s has ended", m.name)
		default:
			f.whileRunning("%s is no longer watched: %v", m.name, err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		m.busy = false
		m.next = time.Now().Add(m.pause(!began.IsZero() && time.Since(began) > maxRetry))
	})
}

// pause returns the time until the member is asked again, after which the next look for pods asks
// it. lasted means that it has sent for a long time.
func (m *member) pause(lasted bool) time.Duration {
	if m.tries++; lasted {
		m.tries = 0
	}
	return min(pollInterval<<min(m.tries, 10)-pollInterval, maxRetry)
}

// hasEnded reports whether a container does not run any longer.
func (f *replicas) hasEnded(s *subject) bool {
	now, err := f.kubectl.life(f.search, s)
	return now == nil && err == nil
}

// whileRunning prints a message about a pod, unless all pods are ended.
func (f *replicas) whileRunning(format string, args ...any) {
	if f.search.Err() == nil {
		f.warn(format, args...)
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
	words := at.ask(s)
	if at.resumes {
		words = append(words, fmt.Sprintf("--%s=%v", inpod.Resume, resumeTime))
	}
	size := "--" + sizeFlag + "=" + strconv.FormatInt(bytes, 10)
	return slices.Concat(words, []string{"--", "record", size}, f.flags, []string{"--"}, f.specs)
}

// Stop implements replay.Replicas.
func (f *replicas) Stop() {
	f.cease()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	f.end((*session).stop)
	time.AfterFunc(stopGrace, f.kill)
}

// kill ends the connections to all pods, also those that are about to be resumed.
func (f *replicas) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.killed = true
	f.end((*session).kill)
}

// end ends the session of each member that has one, while f.mu is locked.
func (f *replicas) end(how func(*session)) {
	for _, m := range f.members {
		if m.session != nil {
			how(m.session)
		}
	}
}

// Close implements replay.Replicas.
func (f *replicas) Close() {
	f.cancel()
	f.mu.Lock()
	f.stopped = true
	f.end((*session).release)
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
