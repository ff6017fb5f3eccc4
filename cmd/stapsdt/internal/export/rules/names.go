//go:build linux

package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
	"go.yaml.in/yaml/v3"
)

// identifier matches the names of metrics, labels and values.
var identifier = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// own lists the prefixes of the names of metrics about the exporter.
var own = []string{"stapsdt_", "go_", "process_", "promhttp_"}

// foreign lists the suffixes to which Prometheus gives a meaning.
var foreign = []string{"_bucket", "_count", "_sum", "_created", "_info"}

// checkName checks the name of a metric: by Prometheus's grammar without the colon, which is
// reserved for recording rules, and by the rules of OpenMetrics. A name without its suffix would
// change with the format that Prometheus requests.
func (r *reader) checkName(n *yaml.Node, m *Metric) {
	stem, total := strings.CutSuffix(m.Name, "_total")
	prefix := slices.IndexFunc(
		own, func(prefix string) bool { return strings.HasPrefix(m.Name, prefix) },
	)
	suffix := slices.IndexFunc(
		foreign, func(suffix string) bool { return strings.HasSuffix(stem, suffix) },
	)
	switch better := m.suggestion(stem); {
	case !identifier().MatchString(m.Name):
		r.errorf(n, "%q is not a valid metric name: use letters, digits and _, and no digit at the beginning", m.Name)
	case prefix >= 0:
		r.errorf(n, "names that begin with %s are those of the exporter's own metrics", own[prefix])
	case total && m.Kind != Counter:
		r.errorf(n, "%s ends in _total, but is not a counter", m.Name)
	case !total && m.Kind == Counter:
		r.errorf(n, "the name of a counter must end in _total: use %s", better)
	case suffix >= 0:
		r.errorf(n, "%s ends in %s, to which Prometheus gives another meaning", m.Name, foreign[suffix])
	case better != m.Name:
		r.errorf(n, "the name of a metric in %s must have the unit: use %s", m.Unit, better)
	}
}

// suggestion returns a name with the suffixes that a metric should have.
func (m *Metric) suggestion(stem string) string {
	if m.Unit != "" && stem != m.Unit && !strings.HasSuffix(stem, "_"+m.Unit) {
		stem += "_" + m.Unit
	}
	if m.Kind == Counter {
		stem += "_total"
	}
	return stem
}

// The labels that identify the process.
const (
	Executable  = "executable"
	Namespace   = "namespace"
	Pod         = "pod"
	Workload    = "workload"
	Container   = "container" // the name of the container in the pod
	ContainerID = "container_id"
)

var (
	// ProcessLabels are the labels that identify the process, in their order.
	ProcessLabels = []string{Executable, Namespace, Workload, Pod, Container, ContainerID}
	// PodLabels are the labels that every series has. They are empty outside of pods: otherwise,
	// with honor_labels, Prometheus would write the names of the exporter's pod there.
	PodLabels = []string{Namespace, Pod, Container}
)

func (r *reader) labels(fields map[string]*yaml.Node, m *Metric) {
	m.Process = slices.Clone(ProcessLabels)
	if n := fields["labels"]; n != nil {
		m.Process = nil
		for _, element := range r.list(n, "labels") {
			switch name := r.text(element); {
			case name == "":
			case !slices.Contains(ProcessLabels, name):
				r.errorf(element, "labels may only be %s; for other labels use by: [%s]", strings.Join(ProcessLabels, ", "), name)
			case slices.Contains(m.Process, name):
				r.errorf(element, "duplicate label %s", name)
			default:
				m.Process = append(m.Process, name)
				m.PodIDs = m.PodIDs || name == ContainerID
			}
		}
	}
	for _, element := range r.list(fields["by"], "by") {
		r.label(element, m)
	}
}

// label reads an element of by: a name, or a name with an expression.
func (r *reader) label(n *yaml.Node, m *Metric) {
	name, value := n, n
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 {
		name, value = resolve(n.Content[0]), resolve(n.Content[1])
	} else if n.Kind != yaml.ScalarNode {
		r.errorf(n, "a label must be a name, or {name: expression}")
		return
	}
	l := Label{Name: r.text(name)}
	if l.Name == "" {
		return
	}
	if why := m.badLabel(l.Name); why != "" {
		if name == value && !identifier().MatchString(l.Name) {
			why = fmt.Sprintf("an expression needs a name: {name: %q}", l.Name)
		}
		r.errorf(name, "%s", why)
		return
	}
	l.Expr = r.expr(value)
	m.By = append(m.By, l)
	if l.Name != Executable { // the rule defines the label itself
		m.Process = slices.DeleteFunc(m.Process, func(name string) bool { return name == l.Name })
	}
}

// badLabel returns the reason that a metric cannot have a label with a name, or "".
func (m *Metric) badLabel(name string) string {
	switch {
	case !identifier().MatchString(name):
		return fmt.Sprintf("%q is not a valid label name: use letters, digits and _, and no digit at the beginning", name)
	case strings.HasPrefix(name, "__"):
		return fmt.Sprintf("the label %s begins with __, which is left to Prometheus", name)
	case name == "otel_metric_overflow":
		return fmt.Sprintf("the label %s is reserved for the overflow of series", name)
	case name == "le" && (m.Kind == Histogram || m.Kind == Duration):
		return "the label le is reserved for the buckets of a histogram"
	case slices.Contains(m.OpenLabels(), name):
		return fmt.Sprintf("the label %s is set already, to the text that matches the pattern %s", name, cmp.Or(m.Probe, m.Start))
	case name == Executable && slices.Contains(m.Process, name),
		slices.ContainsFunc(m.By, func(l Label) bool { return l.Name == name }):
		return fmt.Sprintf("duplicate label %s", name)
	}
	return ""
}

// OpenLabels returns the labels for the parts of a probe's name that the rule does not fix:
// "provider" and "probe", or "function".
func (m *Metric) OpenLabels() (names []string) {
	if m.Probe.Functions || m.Probe.IsZero() {
		if m.Probe.Pattern.IsGlob() || m.Start.Pattern.IsGlob() {
			names = []string{"function"}
		}
		return names
	}
	if strings.ContainsAny(m.Probe.Provider, "*?[") {
		names = append(names, "provider")
	}
	if strings.ContainsAny(m.Probe.Probe, "*?[") {
		names = append(names, "probe")
	}
	return names
}
