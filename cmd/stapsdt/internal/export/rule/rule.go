//go:build linux

// Package rule holds the parts that all rules of an exporter share.
package rule

import (
	"fmt"
	"os/user"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// The expressions that identify the process.
const (
	Executable = "executable"
	Cgroup     = "cgroup"
)

// Host is the part of the exporter that rules use.
type Host struct {
	*console.Console
	Complaints *Complaints
	Machine    *bpf.Machine
	Cgroups    *cgroup.Groups
	// File is the path of the rules, for messages.
	File string
	// Spans receives the spans. It never waits.
	Spans func(expose.Span)
}

// Base is the part that all rules share: the selected probes, and a counter of problems.
type Base struct {
	*Host
	Label        string // used in the exporter's own metrics and in messages
	Env          *bpf.Env
	Selection    engine.Selection
	Subscription *engine.Subscription
	// Problems is the number of problems.
	Problems atomic.Uint64
	// Lacks counts the files that have the name of the executable and lack a selected function.
	Lacks atomic.Uint64

	// Ends is nil unless NeedStarts has set it.
	Ends *Ends

	cgroups string // the pattern of the control groups that the rule selects
}

// Open sets up everything that does not depend on the probes. label names the rule in messages and
// in the exporter's own metrics.
func (b *Base) Open(h *Host, label string, s *rules.Select, specs []spec.Choice) (err error) {
	b.Host, b.Label = h, label
	b.Selection.Selector = probes.NewSelector(specs)
	b.Selection.Selector.In(s.Executable)
	if b.Env, err = h.Machine.Env(); err != nil {
		return err
	}
	if s.User != "" {
		uid, err := userNumber(s.User)
		if err != nil {
			return err
		}
		b.Env.User = &uid
	}
	if b.Env.Executable = bpf.NewPattern(s.Executable); b.Env.Executable != nil {
		if err := bpf.CheckExecutable(); err != nil {
			return fmt.Errorf("executable: %w", err)
		}
	}
	if s.Cgroup != "" {
		b.cgroups = s.Cgroup
		if b.Env.Cgroups, err = bpf.NewCgroups(); err != nil {
			return bpf.MapError(err)
		}
		b.Regroup(h.Cgroups.All())
	}
	return nil
}

func userNumber(name string) (uint32, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(uid), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("the user %q is unknown here: use the UID", name)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(uid), err
}

// Common returns the part that all rules share.
func (b *Base) Common() *Base { return b }

// Problem implements engine.Subscriber.
func (b *Base) Problem(err error) {
	b.Problems.Add(1)
	b.Complaints.Complain(b.Label + ": " + console.Explain(err).Error())
}

// Close releases everything.
func (b *Base) Close() {
	if b.Env != nil {
		b.Env.Stats.Close()
		b.Env.Cgroups.Close()
	}
	if b.Ends != nil {
		b.Ends.Close()
	}
}

// Regroup updates the set of the selected control groups, if the rule selects any: it adds new
// groups, and removes groups that no longer exist. now maps the ID of each group to its path. It is
// a problem if there is no room for all groups.
func (b *Base) Regroup(now map[uint64]string) {
	set := b.Env.Cgroups
	if set == nil {
		return
	}
	var id uint64
	var value uint8
	var gone []uint64
	for entries := set.Iterate(); entries.Next(&id, &value); {
		if _, ok := now[id]; !ok {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		_ = set.Delete(id)
	}
	var full error
	for id, path := range now {
		if !matches(b.cgroups, path) {
			continue
		}
		if err := set.Put(id, uint8(1)); err != nil {
			full = fmt.Errorf("too many control groups match %q: %w", b.cgroups, err)
		}
	}
	if full != nil {
		b.Problem(full)
	}
}

// matches reports whether a path matches a pattern, where * matches slashes too.
func matches(pattern, name string) bool {
	const slash = "\x01" // is not special in a pattern, and occurs in no path
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return ok
}

// Complaints prints warnings of problems, and the same warning at most once in complainEvery.
type Complaints struct {
	to   *console.Console
	mu   sync.Mutex
	said map[string]time.Time
}

// NewComplaints returns an empty Complaints.
func NewComplaints(to *console.Console) *Complaints {
	return &Complaints{to: to, said: map[string]time.Time{}}
}

const (
	// complainEvery is the minimum time between two equal warnings.
	complainEvery = time.Minute
	// maxSaid is the maximum number of warnings that are kept.
	maxSaid = 1000
)

// Complain prints a warning, unless it printed the same one within the last minute.
func (c *Complaints) Complain(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if last, ok := c.said[text]; ok && now.Sub(last) < complainEvery {
		return
	}
	if len(c.said) > maxSaid {
		clear(c.said)
	}
	c.said[text] = now
	c.to.Warn("%s", text)
}
