//go:build linux

package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
)

// attempt is an attempt to attach to the sites of a group in one process, or in all if pid is 0.
type attempt struct {
	file       *file
	attachment *attachment
	group      *group
	pid        int
}

// result is the result of an attempt: its links, which are kept, and their number, or the error.
type result struct {
	attempt
	kept  *lease.Attachment
	links int
	err   error
}

// result returns the result of the attempt. The lease must be held.
func (at attempt) result(held *lease.Lease, links Links, err error) *result {
	return &result{at, held.Keep(at.file.Paid(links, len(links))), len(links), err}
}

// record records a result. After a shortage, the group is tried again as a whole.
func (e *Engine) record(r *result) error {
	gone := r.err != nil && r.pid != 0 && !e.processes.Alive(r.pid)
	switch {
	case stall.Passes(r.err) && !gone:
		_ = r.kept.Close()
		return r.err
	case r.group.withdrawn: // during the attempt
		_ = r.kept.Close()
		return nil
	}
	a := r.attachment
	a.links[r.pid][slices.Index(a.groups, r.group)] = r.kept
	if gone {
		r.group.count(r.links)
		return nil
	}
	return e.attached(r)
}

// later returns the function that receives the result of an attempt if it comes late. On a busy
// machine, the kernel may always take longer than the engine waits, so the result is not thrown
// away. The lease was held for the attempt.
func (e *Engine) later(at attempt, held *lease.Lease) func(Links, error) {
	return func(links Links, err error) {
		if held.Hold() != nil {
			_ = links.Close() // the file is looked at again when it has been written
			return
		}
		r := at.result(held, links, err)
		held.Let()
		e.mu.Lock()
		detached := e.detached
		if !detached {
			e.late = append(e.late, r)
		}
		e.mu.Unlock()
		if detached {
			_ = r.kept.Close()
			return
		}
		e.Wake()
	}
}

// adopt records the results that have come late. It detaches links that are no longer selected. The
// error is the first that is not a shortage.
func (e *Engine) adopt() (err error) {
	e.mu.Lock()
	all := e.late
	e.late = nil
	e.mu.Unlock()
	for _, r := range all {
		f, a := r.file, r.attachment
		if e.files[f.File] != f || !slices.Contains(f.attachments, a) || a.late[r.pid] != r.group {
			_ = r.kept.Close()
			continue
		}
		delete(a.late, r.pid)
		failed := e.record(r)
		if stall.Passes(failed) {
			e.postpone(f, failed, a.subscriptions)
			continue
		}
		f.retry = time.Now() // for the groups and the processes that have waited
		e.pace.want(f.retry)
		err = cmp.Or(err, failed)
	}
	return err
}
