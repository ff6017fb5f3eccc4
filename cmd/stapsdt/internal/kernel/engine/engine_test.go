//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var errRefused = &rights.Error{Err: errors.New("attaching is refused")}

// TestScan: what processes have mapped is attached to, once for each file, and files without
// selected probes are closed.
func TestScan(t *testing.T) {
	app, other := newFile("/app", "a", "b"), newFile("/other", "c")
	w := &world{mapped: map[int][]*target.File{1: {app, other}}}
	e := newEngine(t, w, Options{})
	s := subscribe(t, "app:a")
	subscription := e.add(s)
	require.NoError(t, e.scan())
	require.Equal(t, 1, subscription.Sites())
	require.Equal(t, []string{"app:a"}, s.asked)
	require.Equal(t, []*target.File{other}, w.ignored)
	require.Equal(t, []int{1}, s.seen)

	w.mapped[2] = []*target.File{app}
	require.NoError(t, e.scan())
	require.Equal(t, 1, w.attached())
	require.Equal(t, []int{1, 1, 2}, s.seen)

	w.mapped[3] = []*target.File{newFile("/app2", "a")}
	require.NoError(t, e.scan())
	require.Equal(t, 2, subscription.Sites())
	require.Len(t, w.loaded, 1, "probes that look the same have one program")
	require.NoError(t, e.Detach())
	require.Zero(t, w.attached())
	require.Zero(t, subscription.Sites())
}

// TestAttachedAt: a subscription has the time since when it sees each process, also where processes
// are attached to one by one.
func TestAttachedAt(t *testing.T) { synctest.Test(t, testAttachedAt) }

func testAttachedAt(t *testing.T) {
	app := newFile("/app", "a")
	app.Moves = errors.New("its code is moved")
	w := &world{mapped: map[int][]*target.File{}}
	e := newEngine(t, w, Options{Named: []int{1, 2}})
	s := e.add(subscribe(t, "app:a"))
	var attached []time.Duration
	began := time.Now()
	for _, pid := range []int{1, 1, 2, 2} { // the second scan of each finds nothing new
		time.Sleep(time.Second)
		w.mapped[pid] = []*target.File{app}
		require.NoError(t, e.scan())
		require.Equal(t, 1, s.Sites())
		attached = append(attached, s.AttachedAt().Sub(began))
	}
	require.Equal(t, []time.Duration{time.Second, time.Second, 3 * time.Second, 3 * time.Second}, attached)
}

// TestTwice: a process that has mapped a semaphore twice is reported once.
func TestTwice(t *testing.T) {
	app, other := newFile("/app", "a"), newFile("/other", "a")
	app.Probes[0].SemaphoreOffset = 8
	w := &world{mapped: map[int][]*target.File{1: {app}, 2: {other}}}
	data := proc.Mapping{Start: 0x1000, End: 0x2000, Writable: true}
	w.mappings = []proc.Mapping{data, data}
	e := newEngine(t, w, Options{})
	e.add(subscribe(t, "app:a"))
	for range 2 {
		require.NoError(t, e.scan())
		require.Equal(t, []string{"/app is mapped twice in process 1, and the kernel enables the probes of one copy only"}, w.problems)
	}
}

// TestIgnore: files without selected probes are closed before the next process is looked at, so that
// those of all processes are never open at the same time.
func TestIgnore(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{}}
	for pid := range 100 {
		w.mapped[pid] = []*target.File{newFile(fmt.Sprint("/", pid), "other")}
	}
	w.mapped[50] = append(w.mapped[50], newFile("/app", "a"))
	e := newEngine(t, w, Options{})
	subscription := e.add(subscribe(t, "app:a"))
	require.NoError(t, e.scan())
	require.Equal(t, 1, subscription.Sites())
	require.Len(t, e.files, 1)
	require.Len(t, w.found, 1)
	require.LessOrEqual(t, w.most, 2)
}

// TestShared: what is done for several subscriptions at a site is one program, which lasts as
// long as one of them does.
func TestShared(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a", "b")}}}
	e := newEngine(t, w, Options{Daemon: true})
	first, second := e.add(subscribe(t, "app:a")), e.add(subscribe(t, "app:*"))
	require.NoError(t, e.scan())
	require.Len(t, w.loaded, 2)
	require.Len(t, w.loaded[0].sections, 2)
	require.Len(t, w.loaded[1].sections, 1)
	require.Equal(t, []int{1, 2}, []int{first.Sites(), second.Sites()})

	third := e.add(subscribe(t, "app:b"))
	require.NoError(t, e.scan())
	require.Len(t, w.loaded, 3, "what counts already goes on counting")
	require.Equal(t, 4, w.attached())

	e.Remove(first)
	require.Equal(t, 4, w.attached())
	e.Remove(second)
	require.Equal(t, 1, w.attached())
	require.True(t, w.loaded[0].closed)
	require.False(t, w.loaded[2].closed)
	e.Remove(third)
	require.Zero(t, w.attached())
	require.NoError(t, e.scan())
	require.Zero(t, w.attached())
}

// TestAlike: probes whose programs are alike have one program and one link, which knows the sites by their cookies. It
// goes with the last subscription, and a program that the kernel rejects is reported for each probe, once.
func TestAlike(t *testing.T) {
	app := newFile("/app", "a", "bb", "ccc")
	w := &world{alike: true, mapped: map[int][]*target.File{1: {app}}}
	e := newEngine(t, w, Options{})
	s := subscribe(t, "app:a", "app:bb", "app:ccc")
	subscription := e.add(s)
	require.NoError(t, e.scan())
	require.NoError(t, e.Settle(subscription))
	require.Empty(t, s.problems)
	require.Equal(t, 3, subscription.Sites())
	require.Len(t, w.loaded, 1)
	var sites []Site
	for _, some := range w.sites {
		sites = append(sites, some...)
	}
	require.ElementsMatch(t, []Site{{app.Probes[0], 1}, {app.Probes[1], 2}, {app.Probes[2], 3}}, sites)

	all := e.add(subscribe(t, "app:*"))
	w.sites = nil
	require.NoError(t, e.scan())
	require.Len(t, w.sites, 1, "of one spec")
	e.Remove(subscription)
	require.True(t, w.loaded[0].closed)
	require.False(t, w.loaded[1].closed)
	e.Remove(all)
	require.Zero(t, w.attached())

	w.loadErr = func(int) error { return errors.New("too many instructions") }
	s = subscribe(t, "app:a", "app:bb")
	e.running = true
	e.add(s)
	for range 2 {
		require.NoError(t, e.scan())
	}
	require.Equal(t, []string{
		"app:a in /app (process 1) is not included: too many instructions",
		"app:bb in /app (process 1) is not included: too many instructions",
	}, s.problems)
}

// TestAlikeParts: where the kernel rejects a program for two subscriptions, each gets one whose sites
// have its own cookie.
func TestAlikeParts(t *testing.T) {
	w := &world{alike: true, mapped: map[int][]*target.File{1: {newFile("/app", "a", "bb")}}}
	w.loadErr = func(sections int) error {
		if sections > 1 {
			return errors.New("too many instructions")
		}
		return nil
	}
	e := newEngine(t, w, Options{})
	for range 2 {
		e.add(subscribe(t, "app:a", "app:bb"))
	}
	require.NoError(t, e.scan())
	cookies := map[string][]uint64{}
	for _, some := range w.sites {
		for _, s := range some {
			cookies[s.Name] = append(cookies[s.Name], s.Cookie)
		}
	}
	require.Equal(t, map[string][]uint64{"a": {1, 1}, "bb": {2, 2}}, cookies)
}

// TestPair: the first spec of a pair, which is that of the starts, is attached to last.
func TestPair(t *testing.T) {
	for _, specs := range [][]string{{"app:a", "app:b"}, {"app:b", "app:a"}} {
		w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a", "b")}}}
		e := newEngine(t, w, Options{})
		s := subscribe(t, specs...)
		e.add(s)
		require.NoError(t, e.scan())
		require.Len(t, w.order, 2)
		require.Equal(t, []string{"app:a", "app:b"}, s.asked)
		start := w.loaded[slices.Index(s.asked, specs[0])]
		require.Same(t, start, w.order[1])
	}
}

// TestLoadedApart: if the kernel does not take the program of several subscriptions, each gets
// one of its own, and only those that fail alone are told.
func TestLoadedApart(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}}
	e := newEngine(t, w, Options{Daemon: true})
	alone := 0
	w.loadErr = func(sections int) error {
		if sections == 1 {
			alone++
		}
		if sections > 1 || alone == 2 {
			return errors.New("too many instructions")
		}
		return nil
	}
	var all []*subscriber
	for range 3 {
		all = append(all, subscribe(t, "app:a"))
		e.add(all[len(all)-1])
	}
	require.NoError(t, e.scan())
	require.Equal(t, 2, w.attached())
	require.Equal(t, []string{"app:a in /app (process 1) is not included: too many instructions"}, all[1].problems)
	require.Empty(t, all[0].problems)
	require.Empty(t, all[2].problems)
}

// TestEnds: what ends an engine, and what is told as a problem instead.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		daemon, running bool
		spoil           func(*world, *subscriber)
		ends            bool
		problem         string // of the subscriber
		general         string // that concerns no subscriber
	}{
		"command, wrong expression":        {spoil: wrongSection, ends: true},
		"command, wrong expression later":  {running: true, spoil: wrongSection, problem: "app:a in /app (process 1) is not included: wrong"},
		"daemon, wrong expression":         {daemon: true, spoil: wrongSection, problem: "app:a in /app (process 1) is not included: wrong"},
		"daemon, wrong expression later":   {daemon: true, running: true, spoil: wrongSection, problem: "app:a in /app (process 1) is not included: wrong"},
		"command, refused":                 {spoil: refused, ends: true},
		"command, refused later":           {running: true, spoil: refused, ends: true},
		"daemon, refused":                  {daemon: true, spoil: refused, ends: true},
		"daemon, refused later":            {daemon: true, running: true, spoil: refused, problem: errRefused.Error()},
		"command, a site is wrong":         {spoil: wrongSite, problem: "/app: wrong"},
		"daemon, a site is wrong later":    {daemon: true, running: true, spoil: wrongSite, problem: "/app: wrong"},
		"command, no list of processes":    {running: true, spoil: noList, ends: true},
		"daemon, no list of processes":     {daemon: true, spoil: noList, ends: true},
		"daemon, none for a moment, later": {daemon: true, running: true, spoil: noList, general: "wrong"},
		"command, none for a shortage":     {running: true, spoil: noListNow, general: "list: too many open files"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}}
			e := newEngine(t, w, Options{Daemon: c.daemon})
			s := subscribe(t, "app:a")
			subscription := e.add(s)
			e.running = c.running
			c.spoil(w, s)
			for range 2 { // it is said once for each attempt at most
				err := e.scan()
				if err == nil && !c.running {
					err = e.Settle(subscription)
				}
				require.Equal(t, c.ends, err != nil, err)
				if c.ends {
					return
				}
			}
			if c.problem != "" {
				require.Equal(t, c.problem, s.problems[0])
			}
			if c.general != "" {
				require.Equal(t, []string{c.general, c.general}, w.problems)
			}
		})
	}
}

func wrongSection(_ *world, s *subscriber) { s.err = errors.New("wrong") }
func refused(w *world, _ *subscriber)      { w.attachErr = errRefused }
func wrongSite(w *world, _ *subscriber)    { w.attachErr = errors.New("wrong") }
func noList(w *world, _ *subscriber)       { w.listErr = errors.New("wrong") }
func noListNow(w *world, _ *subscriber)    { w.listErr = fmt.Errorf("list: %w", unix.EMFILE) }

// TestTogether: nothing is attached before each spec has a probe.
func TestTogether(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "start")}}}
	e := newEngine(t, w, Options{})
	s := subscribe(t, "app:start", "app:end")
	s.together = true
	subscription := e.add(s)
	require.NoError(t, e.scan())
	require.Zero(t, subscription.Sites())
	w.mapped[2] = []*target.File{newFile("/lib", "end")}
	require.NoError(t, e.scan())
	require.Equal(t, 2, subscription.Sites())
}

// TestChildren: a child of a process that was named can end before it is looked at. If the process itself does, a command says so.
func TestChildren(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}, gone: []int{3}}
	for _, named := range [][]int{{1}, {1, 3}} {
		e := newEngine(t, w, Options{Named: named})
		subscription := e.add(subscribe(t, "app:a"))
		if err := e.scan(); len(named) > 1 {
			require.ErrorIs(t, err, proc.ErrNoProcess)
			continue
		}
		require.Equal(t, 1, subscription.Sites())
	}
}

// TestLook: processes that have mapped files just now are looked at, all of them if the kernel
// had no room to tell, and those that vanish are counted.
func TestLook(t *testing.T) {
	app := newFile("/app", "a")
	w := &world{mapped: map[int][]*target.File{1: {}}}
	e := newEngine(t, w, Options{Daemon: true})
	subscription := e.add(subscribe(t, "app:a"))
	e.watch()
	e.processorTime = func() time.Duration { return 0 } // so that no scan has to wait
	w.mapped[2], w.pending = []*target.File{app}, []int{2, 3}
	_, err := e.look()
	require.NoError(t, err)
	require.Equal(t, 1, subscription.Sites())
	require.EqualValues(t, 1, e.Missed())
	require.Equal(t, 2, w.asked, "files have to be compared again, although their processes are looked at in any case")
	require.Zero(t, subscription.Missed(), "nothing tells whether it had probes")

	w.mapped[4], w.overflow = []*target.File{newFile("/b", "a")}, true
	_, err = e.look()
	require.NoError(t, err)
	require.Equal(t, 2, subscription.Sites())
	require.Equal(t, 1, w.rechecks)
}

// TestOverflow: while the kernel has no room to tell what processes map, looking at all of them has to wait, as TestPace says,
// and what it does tell is attached to at once.
func TestOverflow(t *testing.T) { synctest.Test(t, testOverflow) }

func testOverflow(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {}}, listing: 10 * time.Millisecond}
	e := newEngine(t, w, Options{Daemon: true})
	zero := time.Now()
	e.processorTime = func() time.Duration { return time.Since(zero) } // as if List needed the processor
	subscription := e.add(subscribe(t, "app:a"))
	e.watch()
	look := func() (scanned bool) {
		before := w.rechecks
		w.overflow = true
		waiting, err := e.look()
		require.NoError(t, err)
		require.Equal(t, w.rechecks == before, waiting)
		time.Sleep(time.Millisecond)
		return w.rechecks > before
	}
	for look() {
	}
	began := time.Now()
	w.mapped[2], w.mapped[3] = []*target.File{newFile("/told", "a")}, []*target.File{newFile("/lost", "a")}
	w.pending = []int{2}
	for !look() {
		require.Equal(t, 1, subscription.Sites())
		require.LessOrEqual(t, time.Since(began), maxLostDelay, "the scan for what was lost is late")
	}
	require.Equal(t, 2, subscription.Sites())
}

// consumer is called until it says so.
type consumer struct {
	ticks int
	next  time.Duration
	tick  func(n int) bool
}

func (c *consumer) FDs() []int { return nil }

func (c *consumer) Tick() (time.Duration, bool, error) {
	c.ticks++
	return c.next, c.tick == nil || c.tick(c.ticks), nil
}

// TestRun: it ends when the consumer says so, when ctx is done, and when no process is left. A
// subscription that is added meanwhile is attached at once.
func TestRun(t *testing.T) {
	t.Run("consumer", func(t *testing.T) {
		e := newEngine(t, &world{mapped: map[int][]*target.File{1: {}}}, Options{})
		c := &consumer{tick: func(n int) bool { return n < 3 }}
		require.NoError(t, e.Run(t.Context(), c))
		require.Equal(t, 3, c.ticks)
	})
	t.Run("context", func(t *testing.T) {
		e := newEngine(t, &world{mapped: map[int][]*target.File{1: {}}}, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		c := &consumer{next: time.Hour, tick: func(int) bool { cancel(); return true }}
		require.NoError(t, e.Run(ctx, c))
		if int(e.poller.events[0].Fd) != int(e.poller.woken.Fd()) { // the end of the check interval came first
			over, err := e.poller.wait(testenv.Patience)
			require.NoError(t, err)
			require.False(t, over, "cancelling wakes it")
		}
	})
	t.Run("no process", func(t *testing.T) {
		e := newEngine(t, &world{}, Options{})
		require.NoError(t, e.Run(t.Context(), &consumer{next: time.Hour}))
	})
	t.Run("added", func(t *testing.T) {
		w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}}
		e := newEngine(t, w, Options{Daemon: true})
		var added *Subscription
		c := &consumer{tick: func(n int) bool {
			if added == nil {
				added = e.add(subscribe(t, "app:a"))
			}
			return added.Sites() == 0
		}}
		require.NoError(t, e.Run(t.Context(), c))
	})
}

// TestForeignMappings: a file that another process maps wakes neither the consumer nor is it compared, however often.
func TestForeignMappings(t *testing.T) {
	r, write, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer write.Close()
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}, foreign: map[int]bool{2: true}, mapping: r}
	e := newEngine(t, w, Options{})
	looks := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := e.options.Watch
	e.options.Watch = func() (Watcher, error) {
		inner, err := watch()
		return &mapping{Watcher: inner, world: w, looked: func() {
			if looks++; looks == 10 {
				cancel()
			}
		}}, err
	}
	e.add(subscribe(t, "app:a"))
	require.NoError(t, e.scan())
	c := &consumer{next: time.Hour}
	_, err = write.WriteString("x")
	require.NoError(t, err)
	require.NoError(t, e.Run(ctx, c))
	require.Equal(t, 10, looks)
	require.Equal(t, 1, c.ticks)
	require.Zero(t, w.asked)
}

// TestPatience: the pauses of a patient engine grow while only other processes map files.
func TestPatience(t *testing.T) {
	for _, patient := range []bool{true, false} {
		w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}, foreign: map[int]bool{2: true}}
		e := newEngine(t, w, Options{Patient: patient})
		e.add(subscribe(t, "app:a"))
		require.NoError(t, e.scan())
		var pauses []time.Duration
		for _, pending := range [][]int{{2}, {2, 2}, {2}, {2}, {2}, {2, 1}, {2}, nil} {
			w.pending = pending
			_, err := e.look()
			require.NoError(t, err)
			pauses = append(pauses, e.pause()/time.Millisecond)
		}
		if patient {
			require.Equal(t, []time.Duration{40, 80, 160, 250, 250, 20, 40, 20}, pauses)
		} else {
			require.Equal(t, []time.Duration{20, 20, 20, 20, 20, 20, 20, 20}, pauses)
		}
	}
}

// mapping is a watcher that always has mappings of process 2.
type mapping struct {
	Watcher
	world  *world
	looked func()
}

func (m *mapping) Pending() bool { m.world.pending = []int{2, 2}; return true }

func (m *mapping) Mapped(see func(int, *proc.Mapping), skip func(int, *proc.Mapping) bool) (pids []int, all bool) {
	m.looked()
	return m.Watcher.Mapped(see, skip)
}

// TestPoller: a wait ends when its time has passed, when it is woken before or meanwhile, and when a descriptor is readable. One
// of listen ends it only if something is heard.
func TestPoller(t *testing.T) {
	p, err := newPoller()
	require.NoError(t, err)
	defer p.close()
	wait := func(most time.Duration) (over bool) {
		over, err := p.wait(most)
		require.NoError(t, err)
		return over
	}
	require.True(t, wait(time.Millisecond))
	for range 100 {
		p.wake()
		require.False(t, wait(testenv.Patience))
		go p.wake()
		require.False(t, wait(testenv.Patience))
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	_, err = w.WriteString("x")
	require.NoError(t, err)
	hears := false
	require.NoError(t, p.listen([]int{int(r.Fd())}, func() bool { return hears }))
	require.True(t, wait(time.Millisecond))
	hears = true
	require.False(t, wait(testenv.Patience))
	require.NoError(t, p.listen(nil, nil))
	require.NoError(t, p.watch([]int{int(r.Fd())}))
	require.False(t, wait(testenv.Patience))
}
