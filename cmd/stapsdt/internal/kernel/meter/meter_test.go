//go:build linux

package meter

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// timeline drives a budget through intervals of 50 ms, in which a program uses a whole processor.
type timeline struct {
	budget *Budget
	now    time.Time
	used   time.Duration
	units  []*Unit
}

const step = 50 * time.Millisecond

func newTimeline(share float64, names ...string) *timeline {
	l := &timeline{budget: NewBudget(share, 0), now: time.Unix(1000, 0)}
	for _, name := range names {
		l.units = append(l.units, &Unit{Name: name})
	}
	l.budget.Check(l.now, 0, l.units)
	return l
}

// steps takes n steps in which each unit costs a part of the processor, and returns the names of those that are over
// after the first that finds any, and when that is.
func (l *timeline) steps(n int, shares ...float64) (over []string, after time.Duration, taken float64) {
	for range n {
		l.now, l.used, after = l.now.Add(step), l.used+step, after+step
		for i, share := range shares {
			l.units[i].Cost += time.Duration(share * float64(step))
		}
		v := l.budget.Check(l.now, l.used, l.units)
		for _, u := range v.Over {
			over = append(over, u.Name)
		}
		if len(over) > 0 {
			return over, after, v.Taken
		}
	}
	return nil, after, 0
}

// TestBudget: what exceeds the budget is found within a second, the sooner the more it costs, and the most
// expensive units go first and only until the others fit.
func TestBudget(t *testing.T) {
	l := newTimeline(0.01, "a", "b", "c")
	over, _, _ := l.steps(100, 0.005, 0.002, 0.002)
	require.Empty(t, over)

	over, after, taken := newTimeline(0.01, "a").steps(100, 0.5)
	require.Equal(t, []string{"a"}, over)
	require.Equal(t, step, after)
	require.InDelta(t, 0.5, taken, 0.001)

	over, after, _ = newTimeline(0.01, "a").steps(100, 0.011)
	require.Equal(t, []string{"a"}, over)
	require.LessOrEqual(t, after, time.Second)

	over, _, _ = newTimeline(1, "a", "b").steps(100, 0.7, 0.9) // a price is an estimate
	require.Empty(t, over)

	l = newTimeline(0.01, "a", "b", "c", "d")
	over, _, _ = l.steps(100, 0.006, 0.3, 0.4, 0.007)
	require.Equal(t, []string{"c", "b", "d"}, over)
	over, _, _ = l.steps(100, 0.006, 0, 0, 0)
	require.Empty(t, over)

	// A burst that is within the budget of a second.
	l = newTimeline(0.01, "a")
	l.steps(30, 0.005)
	over, _, _ = l.steps(1, 0.05)
	require.Empty(t, over)
	over, after, _ = l.steps(100, 0.05)
	require.Equal(t, []string{"a"}, over)
	require.LessOrEqual(t, after, 200*time.Millisecond)

	// What stays is judged by what it costs then. The other one has events until it is detached.
	l = newTimeline(0.01, "a", "b")
	over, _, _ = l.steps(100, 0.5, 0.0099)
	require.Equal(t, []string{"a"}, over)
	over, _, _ = l.steps(1, 0.5, 0.0099)
	require.Empty(t, over)
	over, _, _ = l.steps(100, 0, 0.0099)
	require.Empty(t, over)
}

// TestUnits: the probes of a function or of an operation belong together.
func TestUnits(t *testing.T) {
	m := &Meter{}
	function := &bpf.FunctionSite{}
	call := m.unit(&bpf.Probe{Provider: "go", Name: "main.f", Function: function})
	assert.Same(t, call, m.unit(&bpf.Probe{Provider: "go", Name: "main.f:return", Function: &bpf.FunctionSite{Return: true}}))
	assert.Equal(t, []string{"go:main.f", "go:main.f:return"}, call.Probes)
	assert.Len(t, call.Keys, 2)
	start := m.unit(&bpf.Probe{Provider: "app", Name: "query__start"})
	assert.Same(t, start, m.unit(&bpf.Probe{Provider: "app", Name: "query__done"}))
	assert.Same(t, start, m.unit(&bpf.Probe{Provider: "app", Name: "query"}))
	assert.NotSame(t, start, m.unit(&bpf.Probe{Provider: "app", Name: "queries"}))
	assert.NotSame(t, call, m.unit(&bpf.Probe{Provider: "go", Name: "main.f.func1", Function: function}))

	whole := &Meter{Whole: true}
	assert.Same(t, whole.unit(&bpf.Probe{Provider: "app", Name: "begin"}), whole.unit(&bpf.Probe{Provider: "app", Name: "done"}))
}

// TestAdd: an event costs its price, and what the measured runs of the program took.
func TestAdd(t *testing.T) {
	p := &program{unit: &Unit{}, price: 1000}
	p.add(layout.Hits{Count: 10})
	require.EqualValues(t, 10*1000, p.unit.Cost)
	p.add(layout.Hits{Count: 32, Measured: 2, Time: 400})
	require.EqualValues(t, 10*1000+22*1200, p.unit.Cost)
	require.EqualValues(t, 32, p.unit.Count)
}

// TestProcessor: the time of this process and of a child is that which they have used, and not what they had used before.
func TestProcessor(t *testing.T) {
	var p Processor
	self := os.Getpid()
	clock := func() time.Duration {
		used, err := processTime(self)
		require.NoError(t, err)
		return used
	}
	before := clock()
	require.Zero(t, p.Used([]int{self}))
	begin := clock()
	end := begin
	for end == begin { // however little of the processor this gets
		end = clock()
	}
	used := p.Used([]int{self})
	after := clock()
	require.GreaterOrEqual(t, used, end-begin)
	require.LessOrEqual(t, used, after-before)

	child := exec.Command("sh", "-c", "while :; do :; done")
	require.NoError(t, child.Start())
	defer func() { child.Process.Kill(); child.Wait() }()
	require.Eventually(t, func() bool {
		own := p.Used(nil)
		return p.Used([]int{child.Process.Pid})-own > 10*time.Millisecond
	}, testenv.Patience, 20*time.Millisecond, "a process that came later counts as a whole")
	_, err := processTime(1 << 22) // which no PID is
	require.Error(t, err)
}
