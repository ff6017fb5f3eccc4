//go:build linux

package tracetest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Counter counts how often a site was reached, and nothing else: it is what a soak test wants, as no sample is written
// that would have to be read.
type Counter struct {
	mu       sync.Mutex
	fds      []int
	withLost bool
	closed   bool
	hits     uint64
	lost     uint64
}

// CountUprobe attaches a counter to the instruction at a file offset, in every process that maps the file or will,
// or in one where [WithThread] says so. It needs root and Linux 4.17.
func CountUprobe(path string, offset uint64, opts ...Option) (*Counter, error) {
	c := &Counter{}
	if _, err := c.open(path, offset, false, opts); err != nil {
		return nil, err
	}
	if err := enableAll(c.fds); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// open opens the counter's events, which are not enabled yet, and returns its settings.
func (c *Counter) open(path string, offset uint64, sampled bool, opts []Option) (settings, error) {
	s, err := newSettings(opts)
	if err != nil {
		return s, err
	}
	attr, err := perfAttr(sampled, s)
	if err != nil {
		return s, err
	}
	c.withLost = attr.Read_format&unix.PERF_FORMAT_LOST != 0
	c.fds, err = openUprobes(path, offset, attr, s)
	return s, err
}

// Count is how many hits there were since the attachment. After Close it is what it was then. It may be called from
// any goroutine.
func (c *Counter) Count() (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.refresh()
	return c.hits, err
}

func (c *Counter) refresh() error {
	if c.closed {
		return nil
	}
	hits, lost, err := readCounters(c.fds, c.withLost)
	if err == nil {
		c.hits, c.lost = hits, lost
	}
	return err
}

// Close detaches. When it returns the sites that nothing else traces are nops again. It is idempotent.
func (c *Counter) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.close()
}

func (c *Counter) close() error {
	if c.closed {
		return nil
	}
	err := c.refresh()
	c.closed = true
	return errors.Join(err, closeAll(c.fds))
}

// Uprobe is a counter that also samples: each hit leaves a [Sample].
type Uprobe struct {
	Counter
	rings []*ring
	poll  []unix.PollFd

	pending []Sample // in order of time
	horizon time.Duration
	dropped uint64 // by the records that tell of lost ones
}

// AttachUprobe attaches to the instruction at a file offset and samples every hit. Where it attaches, and what it
// needs, is as for [CountUprobe]. Its methods may be called from any goroutine; Read holds the others up while it waits.
func AttachUprobe(path string, offset uint64, opts ...Option) (*Uprobe, error) {
	u := &Uprobe{}
	s, err := u.open(path, offset, true, opts)
	if err != nil {
		return nil, err
	}
	for _, fd := range u.fds {
		r, err := mapRing(fd, s.ring)
		if err != nil {
			return nil, errors.Join(err, u.Close())
		}
		u.rings = append(u.rings, r)
		u.poll = append(u.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	if err := enableAll(u.fds); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return u, nil
}

// Lost is how many hits left no sample because a ring was full. Before Linux 6.0 the kernel tells of them only in the
// next sample that finds room, so the last ones are missing there: then compare Count with the samples.
func (u *Uprobe) Lost() (uint64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.refresh()
	return max(u.lost, u.dropped), err
}

// Samples is what was sampled and not read yet, oldest first. It does not wait.
func (u *Uprobe) Samples() ([]Sample, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, os.ErrClosed
	}
	err := u.refill()
	n := u.ready()
	samples := slices.Clone(u.pending[:n])
	u.pending = slices.Delete(u.pending, 0, n)
	return samples, err
}

// Read returns the oldest sample that was not read yet, and waits for one if there is none. It returns
// os.ErrDeadlineExceeded when the timeout passes, io.EOF when the thread of [WithThread] is gone, and os.ErrClosed
// after Close.
func (u *Uprobe) Read(timeout time.Duration) (Sample, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	deadline := time.Now().Add(timeout)
	for {
		if u.closed {
			return Sample{}, os.ErrClosed
		}
		if u.ready() == 0 {
			if err := u.refill(); err != nil {
				return Sample{}, err
			}
		}
		if u.ready() > 0 {
			s := u.pending[0]
			u.pending = slices.Delete(u.pending, 0, 1)
			return s, nil
		}
		if len(u.poll) == 0 {
			return Sample{}, io.EOF
		}
		left := time.Until(deadline)
		if left <= 0 {
			return Sample{}, fmt.Errorf("no sample for %v: %w", timeout, os.ErrDeadlineExceeded)
		}
		if err := u.wait(left); err != nil {
			return Sample{}, err
		}
	}
}

// ReadN reads n samples. When an error ends it early it returns what came before.
func (u *Uprobe) ReadN(n int, timeout time.Duration) ([]Sample, error) {
	deadline := time.Now().Add(timeout)
	var samples []Sample
	for len(samples) < n {
		s, err := u.Read(time.Until(deadline))
		if err != nil {
			return samples, fmt.Errorf("after %d samples of %d: %w", len(samples), n, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// Close detaches, as [Counter.Close] does. Samples that were not read are gone.
func (u *Uprobe) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	// First the rings: a mapping keeps its event alive, and the site patched, after the descriptor is closed.
	var errs []error
	for _, r := range u.rings {
		errs = append(errs, r.close())
	}
	u.rings, u.pending = nil, nil
	return errors.Join(append(errs, u.close())...)
}

// ready is how many of the pending samples can be given out.
func (u *Uprobe) ready() int {
	n := 0
	for n < len(u.pending) && u.pending[n].Time <= u.horizon {
		n++
	}
	return n
}

// refill reads the rings, twice. A thread that moves from one processor to another leaves its hits in two rings, and
// the later may be found by a pass that looked into the ring of the earlier too soon. The second pass finds every hit
// that came before one of the first pass; what is newer than those waits for its turn. So the hits of one thread, and of
// any that wait for one another, come out in the order in which they happened.
func (u *Uprobe) refill() error {
	if err := u.pass(); err != nil {
		return err
	}
	for _, s := range u.pending {
		u.horizon = max(u.horizon, s.Time)
	}
	if err := u.pass(); err != nil {
		return err
	}
	slices.SortStableFunc(u.pending, func(a, b Sample) int { return cmp.Compare(a.Time, b.Time) })
	return nil
}

// pass reads what is in the rings once. It stops at the head that a ring had when it came to it, or a busy site would
// keep it for ever.
func (u *Uprobe) pass() error {
	for _, r := range u.rings {
		for budget := len(r.data); budget > 0; {
			record, ok, err := r.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			budget -= len(record)
			if err := u.take(record); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *Uprobe) take(record []byte) error {
	switch kind := binary.NativeEndian.Uint32(record); kind {
	case unix.PERF_RECORD_SAMPLE:
		s, err := decodeSample(record[8:], hostLayout())
		if err != nil {
			return err
		}
		u.pending = append(u.pending, s)
	case unix.PERF_RECORD_LOST:
		r := reader{data: record[8:]}
		r.uint64() // the event's id
		u.dropped += r.uint64()
	}
	return nil
}

// wait polls the events once. One whose thread has ended reports POLLHUP for ever, and is left out from then on.
func (u *Uprobe) wait(left time.Duration) error {
	millis := min(left.Milliseconds()+1, math.MaxInt32)
	_, err := unix.Poll(u.poll, int(millis))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("poll uprobe: %w", err)
	}
	u.poll = slices.DeleteFunc(u.poll, func(p unix.PollFd) bool { return p.Revents&unix.POLLHUP != 0 })
	return nil
}
