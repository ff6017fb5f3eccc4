//go:build linux

package export

import (
	"errors"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/metric"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
)

// Collect reads the metrics of all rules, and the metrics about the exporter itself. It implements
// expose.Collector.
func (e *exporter) Collect() ([]expose.Family, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	own := &ownMetrics{}
	var all []expose.Family
	var errs []error
	for _, m := range e.metrics {
		r, err := m.Read()
		all = append(all, *r.Family)
		own.metric(r)
		errs = append(errs, err, own.rule(m.Common(), r.Full))
	}
	for _, s := range e.spans {
		own.events.add(float64(s.Events.Load()), s.Label)
		errs = append(errs, own.rule(s.Common(), 0))
	}
	var skips numbers
	e.engine.Skips(func(reason string, n uint64) { skips.add(float64(n), reason) })
	all = append(all,
		expose.Family{Name: "stapsdt_missed_processes_total", Help: "Processes that ended before it was known whether they have probes.", Series: one(float64(e.engine.Missed()))},
		expose.Family{Name: "stapsdt_skipped_files_total", Help: "Files that were skipped or postponed, by reason.", Labels: []string{"reason"}, Series: skips},
		expose.Family{Name: "stapsdt_scan_seconds_total", Help: "Time that was spent on looking at processes.", Unit: "seconds", Series: one(e.engine.ScanTime().Seconds())})
	all = append(all, e.costFamilies()...)
	return append(all, own.families(&e.state)...), errors.Join(errs...)
}

// costFamilies returns the metrics about the cost of functions, if rules select any.
func (e *exporter) costFamilies() []expose.Family {
	if e.cost.prices == nil {
		return nil
	}
	now := e.cost.now
	var detached numbers
	for _, r := range e.rules() {
		if base := r.Common(); len(base.Selection.Selector.FunctionSpecs()) > 0 {
			detached.add(float64(now.detached[base.Label]), base.Label)
		}
	}
	return []expose.Family{
		{Name: "stapsdt_detached_functions", Help: "Functions that are detached from now to keep the budget.", Kind: expose.Gauge, Labels: []string{"metric"}, Series: detached},
		{Name: "stapsdt_function_detachments_total", Help: "How often functions were detached from to keep the budget.", Series: one(float64(now.detaches))},
		{Name: "stapsdt_function_cost_seconds_total", Help: "Processor time of programs that the events of their functions have taken.", Unit: "seconds", Series: one(now.cost.Seconds())},
		{Name: "stapsdt_function_programs_seconds_total", Help: "Processor time of the programs with functions that are attached to.", Unit: "seconds", Series: one(now.used.Seconds())},
	}
}

// numbers holds the series of one of the exporter's own metrics.
type numbers []expose.Series

func (n *numbers) add(value float64, labels ...string) {
	*n = append(*n, expose.Series{Values: labels, Value: value})
}

// one returns the series of a metric without labels.
func one(value float64) numbers { return numbers{{Values: []string{}, Value: value}} }

// seconds returns a time as Prometheus has it.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// ownMetrics describes the exporter itself, by rule.
type ownMetrics struct {
	events, lost, unattached, sites, since, problems, series, lacks numbers
}

func (o *ownMetrics) metric(r metric.Reading) {
	o.events.add(float64(r.Events), r.Name)
	o.series.add(float64(len(r.Series)), r.Name)
}

// rule adds the series of a rule. full is the number of operations that were not measured because
// too many were open.
func (o *ownMetrics) rule(r *rule.Base, full uint64) error {
	name := r.Label
	stats, err := layout.ReadStats(r.Env.Stats)
	if err != nil {
		return err
	}
	o.lost.add(float64(full+stats.Lost), name, "full")
	o.lost.add(float64(stats.Unevaluated), name, "unevaluated")
	o.lost.add(float64(stats.Foreign), name, "foreign")
	o.unattached.add(float64(r.Subscription.Missed()), name)
	o.sites.add(float64(r.Subscription.Sites()), name)
	if r.Subscription.Attached() {
		o.since.add(seconds(r.Subscription.AttachedAt()), name)
	}
	o.problems.add(float64(r.Problems.Load()), name)
	if len(r.Selection.Selector.FunctionSpecs()) > 0 {
		o.lacks.add(float64(r.Lacks.Load()), name)
	}
	return nil
}

// families returns the metrics. It leaves out metrics without series.
func (o *ownMetrics) families(state *rulesState) []expose.Family {
	success := 1.0
	if state.failed.Load() {
		success = 0
	}
	metric := []string{"metric"}
	return []expose.Family{
		{Name: "stapsdt_events_total", Help: "Events that are counted in a metric.", Labels: metric, Series: o.events},
		{Name: "stapsdt_lost_events_total", Help: "Events that are not in a metric, because a table was full, because an expression could not be evaluated, or because no goroutine fired them.", Labels: []string{"metric", "reason"}, Series: o.lost},
		{Name: "stapsdt_unattached_processes_total", Help: "Processes that ended before their probes were attached to, judged by the provider in the name of an image that could not be read. On a busy machine, the events of some of them were counted.", Labels: metric, Series: o.unattached},
		{Name: "stapsdt_errors_total", Help: "Errors that kept probes from being attached to.", Labels: metric, Series: o.problems},
		{Name: "stapsdt_attached_sites", Help: "Sites of probes that are attached to now.", Kind: expose.Gauge, Labels: metric, Series: o.sites},
		{Name: "stapsdt_attach_time_seconds", Help: "When sites of probes were last attached to. What a program fired before its sites were is not counted.", Unit: "seconds", Kind: expose.Gauge, Labels: metric, Series: o.since},
		{Name: "stapsdt_files_without_function_total", Help: "Files of programs that have the name in the rule, and lack a function that it selects.", Labels: metric, Series: o.lacks},
		{Name: "stapsdt_series", Help: "Series that a metric has.", Kind: expose.Gauge, Labels: metric, Series: o.series},
		{Name: "stapsdt_rules_reload_success", Help: "Whether the last reload of the rules file succeeded.", Kind: expose.Gauge, Series: one(success)},
		{Name: "stapsdt_rules_reload_time_seconds", Help: "When the rules in force were read.", Unit: "seconds", Kind: expose.Gauge, Series: one(seconds(state.at))},
	}
}
