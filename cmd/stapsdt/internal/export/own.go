//go:build linux

package export

import (
	"errors"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
)

// Collect reads the metrics of all rules, and those about the exporter itself. It implements
// expose.Source.
func (e *exporter) Collect() ([]expose.Family, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	own := &ownMetrics{}
	var all []expose.Family
	var errs []error
	for _, m := range e.metrics {
		f, events, err := m.Family()
		errs = append(errs, err)
		all = append(all, *f)
		own.events.add(float64(events), m.Name)
		own.series.add(float64(len(f.Series)), m.Name)
		full, err := m.Full()
		errs = append(errs, err, own.rule(m.Common(), full))
	}
	for _, s := range e.spans {
		own.events.add(float64(s.Events()), s.Label)
		errs = append(errs, own.rule(s.Common(), 0))
	}
	return append(all, own.families(e)...), errors.Join(errs...)
}

// numbers are the series of one of the exporter's own metrics.
type numbers []expose.Series

func (n *numbers) add(value float64, labels ...string) {
	*n = append(*n, expose.Series{Values: labels, Value: value})
}

// ownMetrics describe the exporter itself.
type ownMetrics struct {
	events, lost, sites, problems, series numbers
}

// rule adds the series of a rule. full is the number of operations that were not measured because
// too many were open.
func (o *ownMetrics) rule(r *rule.Base, full uint64) error {
	name := r.Label
	stats, err := layout.ReadStats(r.Env.Stats)
	if err != nil {
		return err
	}
	full += stats.Lost
	o.lost.add(float64(full), name, "full")
	o.lost.add(float64(stats.Unevaluated), name, "unevaluated")
	o.lost.add(float64(stats.Foreign), name, "foreign")
	o.sites.add(float64(r.Subscription.Sites()), name)
	o.problems.add(float64(r.Problems()), name)
	return nil
}

func (o *ownMetrics) families(e *exporter) []expose.Family {
	success := 1.0
	if e.state.failed {
		success = 0
	}
	var skips numbers
	e.engine.Skips(func(reason string, n uint64) { skips.add(float64(n), reason) })
	metric, one := []string{"metric"}, func(v float64) numbers { return numbers{{Values: []string{}, Value: v}} }
	return []expose.Family{
		{Name: "stapsdt_events_total", Help: "Events that a metric is made of.", Labels: metric, Series: o.events},
		{Name: "stapsdt_lost_events_total", Help: "Events that are not in a metric, because a table was full, because an expression could not be evaluated, or because no goroutine fired them.", Labels: []string{"metric", "reason"}, Series: o.lost},
		{Name: "stapsdt_errors_total", Help: "Errors that kept probes from being attached to.", Labels: metric, Series: o.problems},
		{Name: "stapsdt_attached_sites", Help: "Sites of probes that are attached to now.", Kind: expose.Gauge, Labels: metric, Series: o.sites},
		{Name: "stapsdt_series", Help: "Series that a metric has.", Kind: expose.Gauge, Labels: metric, Series: o.series},
		{Name: "stapsdt_rules_reload_success", Help: "Whether the rules file, as it was read last, is in force.", Kind: expose.Gauge, Series: one(success)},
		{Name: "stapsdt_rules_reload_time_seconds", Help: "When the rules in force were read.", Unit: "seconds", Kind: expose.Gauge, Series: one(float64(e.state.at.UnixMilli()) / 1000)},
		{Name: "stapsdt_missed_processes_total", Help: "Processes that ended before it was known whether they have probes.", Series: one(float64(e.engine.Missed()))},
		{Name: "stapsdt_skipped_files_total", Help: "Times that a file was left out or postponed: because its user has used up the time or the number of descriptors, probes or mappings that a user may take, or because of its file system.", Labels: []string{"reason"}, Series: skips},
		{Name: "stapsdt_scan_seconds_total", Help: "Time that was spent on looking at processes.", Unit: "seconds", Series: one(e.engine.ScanTime().Seconds())},
	}
}
