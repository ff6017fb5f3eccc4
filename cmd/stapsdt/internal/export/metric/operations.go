//go:build linux

package metric

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/operations"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"

	"github.com/cilium/ebpf"
)

// pairTables holds the tables of a metric that measures operations.
type pairTables struct {
	operations.Operations
	seen *ebpf.Map // the table of NewSeen for an InFlight with labels, or nil
}

// pairSection generates the code of a start or of an end.
func (m *Traced) pairSection(p *bpf.Probe) (*bpf.Section, error) {
	o := m.pairs
	if err := m.prepare(); err != nil {
		return nil, err
	}
	isStart, err := spec.IsStart(&m.Specs[0], &m.Specs[1], p.Provider, p.Name)
	if err != nil {
		return nil, err
	}
	kind, err := m.kind(p)
	if err != nil {
		return nil, err
	}
	of := bpf.Operations{OperationTables: o.Tables, Kind: kind}
	switch {
	case isStart:
		return o.Plan.Start(m.Env, of, p)
	case m.Kind == rules.InFlight:
		return o.Plan.EndOnly(m.Env, of, p)
	}
	end, err := o.Plan.NewEnd(p, query.Counting{Bounds: m.bounds})
	if err != nil {
		return nil, err
	}
	tables, id, err := m.shape(p, end, m.Scale)
	if err != nil {
		return nil, err
	}
	return o.Plan.End(m.Env, of, end, tables, id)
}

// kind returns the ID of the operations that a probe starts or ends: of the calls of its
// function, or of all operations.
func (m *Traced) kind(p *bpf.Probe) (uint32, error) {
	if _, ok := m.Calls(); !ok {
		return 0, nil
	}
	name := strings.TrimSuffix(p.Name, spec.ReturnSuffix)
	if i := slices.Index(m.kinds, name); i >= 0 {
		return uint32(i), nil
	}
	if len(m.kinds) == query.MaxKinds {
		return 0, fmt.Errorf("too many different functions: the times of at most %d are measured", query.MaxKinds)
	}
	m.kinds = append(m.kinds, name)
	return uint32(len(m.kinds) - 1), nil
}

// Unwatched removes the open calls of functions in processes: a later return at the same depth
// would be taken for theirs.
func (m *Traced) Unwatched(functions []string, pids map[int]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Ends != nil {
		if err := m.Ends.Unwatched(functions, pids); err != nil {
			m.Problem(err)
		}
	}
	if m.pairs == nil || m.pairs.Plan == nil {
		return
	}
	if _, ok := m.Calls(); !ok {
		return
	}
	err := m.pairs.Remove(func(o *layout.Open) bool {
		of := spec.FunctionProvider + ":" + m.kinds[o.Kind]
		return pids[o.PID] && slices.Contains(functions, of)
	})
	if err != nil {
		m.Problem(err)
	}
}

// prepare creates the tables once there are a start and an end.
func (m *Traced) prepare() error {
	o := m.pairs
	if o.Plan != nil {
		return nil
	}
	isInFlight := m.Kind == rules.InFlight
	err := o.Prepare(m.Selection.Selector, query.Pairing{
		Key: m.Key, Where: query.SplitWhere(m.Where), By: m.by, AtStart: isInFlight,
	})
	if err != nil || !isInFlight || len(o.Plan.Open) == 0 {
		return err
	}
	if o.seen, err = o.Plan.NewSeen(m.Series); err != nil {
		return bpf.MapError(err)
	}
	return nil
}

// totals returns the sums of the totals of all kinds of operations.
func (m *Traced) totals() (sum query.Totals, err error) {
	for kind := range max(1, len(m.kinds)) {
		one, err := layout.ReadTotals(m.pairs.Tables.Totals, uint32(kind))
		if err != nil {
			return sum, err
		}
		sum.Add(one)
	}
	return sum, nil
}

// Stop ends the pairing of operations, before the programs are detached.
func (m *Traced) Stop() error {
	switch {
	case m.pairs != nil:
		return m.pairs.Tables.Stop()
	case m.Ends != nil:
		return m.Ends.Stop()
	}
	return nil
}

// purge removes the operations and labels of processes that have exited.
func (o *pairTables) purge() error {
	if o.seen != nil && o.Due() {
		if _, err := o.labels(); err != nil {
			return err
		}
	}
	return o.Purge()
}

// labels returns the labels of operations that living processes have started. It deletes the labels
// of other processes.
func (o *pairTables) labels() (all []layout.Seen, err error) {
	if o.seen == nil {
		return nil, nil
	}
	seen, err := layout.ReadSeen(o.seen)
	if err != nil {
		return nil, err
	}
	lives := proc.Lives{}
	for _, s := range seen {
		if lives.Has(s.PID) {
			all = append(all, s)
		} else {
			_ = o.seen.Delete(s.Key) // a new process with the same PID will be recorded again
		}
	}
	return all, nil
}

func (o *pairTables) close() {
	o.seen.Close()
	o.Close()
}
