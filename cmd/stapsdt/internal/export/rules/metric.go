//go:build linux

package rules

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"

	"go.yaml.in/yaml/v3"
)

var (
	selectKeys = []string{"executable", "cgroup", "user"}
	probeKeys  = []string{"probe", "start", "end"}
	kindKeys   = []string{"counter", "gauge", "histogram", "duration", "in_flight"} // by Kind
	metricKeys = slices.Concat([]string{"name", "help"}, probeKeys, []string{"key"}, kindKeys,
		[]string{"unit", "scale", "buckets", "by", "where", "labels", "series", "expire"}, selectKeys)
)

// metric reads a rule for a metric. named maps the names of earlier metrics to their nodes.
func (r *reader) metric(n *yaml.Node, named map[string]*yaml.Node) (m Metric, ok bool) {
	fields := r.mapping(n, "a rule for a metric", metricKeys...)
	if fields == nil {
		return m, false
	}
	if !r.kind(n, fields, &m) {
		return m, false
	}
	r.probes(n, fields, &m)
	if m.Name = r.text(fields["name"]); fields["name"] == nil {
		r.errorf(n, "the metric needs a name")
	}
	r.scale(fields, &m)
	if m.Name != "" {
		r.checkName(fields["name"], &m)
		if other := named[m.Name]; other != nil {
			r.errorf(fields["name"], "duplicate metric name %s (first on line %d)", m.Name, other.Line)
		}
		named[m.Name] = fields["name"]
	}
	r.buckets(n, fields, &m)
	m.Where = r.expr(fields["where"])
	m.Select = r.selection(fields)
	r.functions(fields, &m.Select, m.Probe, m.Start, m.End)
	r.labels(fields, &m)
	r.series(fields["series"], &m)
	r.expire(fields["expire"], &m)
	if m.Help = r.text(fields["help"]); m.Help == "" {
		m.Help = m.help()
	}
	return m, true
}

// kind reads the kind and the value of a metric. It reports whether there is a kind.
func (r *reader) kind(n *yaml.Node, fields map[string]*yaml.Node, m *Metric) bool {
	first := ""
	for kind, key := range kindKeys {
		field := fields[key]
		switch {
		case field == nil:
			continue
		case first != "":
			r.errorf(field, "a metric has either %s or %s, not both", first, key)
			continue
		}
		first, m.Kind = key, Kind(kind)
		switch m.Kind {
		case Duration, InFlight:
			if field.Value != "true" {
				r.errorf(field, "%s must be true or left out", key)
			}
		default:
			if m.Value = r.expr(field); m.Kind == Counter && m.Value == "1" {
				m.Value = ""
			}
		}
	}
	if first == "" {
		r.errorf(n, "the metric needs one of %s", strings.Join(kindKeys, ", "))
	}
	return first != ""
}

// probes reads the probes of a metric: one probe, or a start and an end.
func (r *reader) probes(n *yaml.Node, fields map[string]*yaml.Node, m *Metric) {
	m.Probe, m.Start, m.End = r.probe(fields["probe"]), r.probe(fields["start"]), r.probe(fields["end"])
	paired := m.Kind == Duration || m.Kind == InFlight
	if m.Kind == InFlight {
		r.notInFlight(fields, m)
	}
	if m.Kind == Duration && m.Probe.Functions {
		r.calls(fields, m)
		return
	}
	wanted, foreign := []string{"probe"}, []string{"start", "end", "key"}
	if paired {
		wanted, foreign = []string{"start", "end"}, []string{"probe"}
	}
	for _, key := range wanted {
		if fields[key] == nil {
			r.errorf(n, "a metric with %s needs %s", kindKeys[m.Kind], strings.Join(wanted, " and "))
			break
		}
	}
	for _, key := range foreign {
		if fields[key] != nil {
			r.errorf(fields[key], "a metric with %s has no %s: it needs %s", kindKeys[m.Kind], key, strings.Join(wanted, " and "))
		}
	}
	if paired && !m.Start.IsZero() && !m.End.IsZero() {
		r.key(n, fields, m)
	}
}

// key reads the key that pairs a start with its end.
func (r *reader) key(n *yaml.Node, fields map[string]*yaml.Node, m *Metric) {
	if m.Start == m.End {
		r.errorf(fields["end"], "the start and the end are the same probe, %s", m.End)
		return
	}
	if n := fields["key"]; n != nil {
		m.Key = r.parts(n)
		return
	}
	if m.Start.Functions && m.End == m.Start.Suffixed(spec.ReturnSuffix) {
		r.errorf(n, "the start and the end are the calls and the returns of one function: give probe: %s in their place", m.Start)
		return
	}
	if m.Start.Functions && m.End.Functions {
		m.Key = []string{query.Goroutine}
		return
	}
	start, ok1 := strings.CutSuffix(m.Start.String(), "_start")
	end, ok2 := strings.CutSuffix(m.End.String(), "_end")
	if !ok1 || !ok2 || start != end {
		r.errorf(n, "no key pairs a start with its end: give key: arg0 or another expression, key: goroutine or key: thread")
	}
	m.Key = []string{"arg0"}
}

// parts reads the parts of a key: an expression, or a list of them.
func (r *reader) parts(n *yaml.Node) (all []string) {
	elements := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if elements = r.list(n, "key"); len(elements) == 0 {
			r.errorf(n, "the key has no parts")
		}
	}
	for _, element := range elements {
		src := r.text(element)
		if parts, err := query.SplitExprs([]string{src}); err == nil && len(parts) > 1 {
			r.errorf(element, "a key of several parts is a list: [%s]", strings.Join(parts, ", "))
		} else if src != "" {
			all = append(all, r.expr(element))
		}
	}
	return all
}

// probe reads PROVIDER:PROBE. The spec is zero if there is no node.
func (r *reader) probe(n *yaml.Node) (none spec.Spec) {
	text := r.text(n)
	if text == "" {
		return none
	}
	one, err := spec.Parse(text)
	if err == nil {
		err = one.CheckOne()
	}
	switch {
	case err != nil:
		r.errorf(n, "%s", strings.Replace(err.Error(), "[FILE:]", "", 1))
	case one.File != "" && one.Functions:
		r.errorf(n, "%q has a file: give go:FUNCTION, and the file's name as executable", text)
	case one.File != "":
		r.errorf(n, "%q has a file: give PROVIDER:PROBE, and the file's name as executable", text)
	default:
		return one
	}
	return none
}

// maxName is the maximum length of a name that the kernel compares: strings are cut after 64 bytes,
// including the NUL.
const maxName = 63

func (r *reader) selection(fields map[string]*yaml.Node) Select {
	s := Select{
		Executable: r.text(fields["executable"]), Cgroup: r.text(fields["cgroup"]), User: r.text(fields["user"]),
	}
	switch text := strings.Trim(s.Executable, "*"); {
	case strings.Contains(text, "/"):
		r.errorf(fields["executable"], "%q has a directory: executable is a pattern for the file's name alone", s.Executable)
	case strings.ContainsAny(text, `*?[\`):
		r.errorf(fields["executable"], "%q has more than a * at its beginning and its end, which is all that the kernel compares", s.Executable)
	case len(text) > maxName,
		strings.HasPrefix(s.Executable, "*") && len(text) > value.MaxContains:
		r.errorf(fields["executable"], "%q is too long: the kernel compares at most %d bytes, and %d after a *", s.Executable, maxName, value.MaxContains)
	}
	if _, err := path.Match(s.Cgroup, ""); err != nil {
		r.errorf(fields["cgroup"], "%q is not a valid pattern", s.Cgroup)
	}
	return s
}

// The numbers of series.
const (
	defaultSeries = 1000
	maxSeries     = 10000
	// maxNative is the maximum for native histograms, which take 4 KiB per series.
	maxNative = 2000
)

func (r *reader) series(n *yaml.Node, m *Metric) {
	m.Series = defaultSeries
	text := r.text(n)
	if text == "" {
		return
	}
	most := maxSeries
	if m.Native {
		most = maxNative
	}
	series, err := strconv.Atoi(text)
	if err != nil || series < 1 || series > most {
		r.errorf(n, "series must be a number from 1 to %d", most)
		return
	}
	m.Series = series
}

// defaultExpire is longer than the pause between relevant events of most programs, and shorter than
// a scan of a web server by strangers.
const defaultExpire = 15 * time.Minute

// expire reads the time after which a series without events is removed.
func (r *reader) expire(n *yaml.Node, m *Metric) {
	text := r.text(n)
	switch {
	case m.Kind == InFlight && n != nil:
		r.errorf(n, "a metric with in_flight has no expire: a series stays until its processes have ended")
	case m.Kind == InFlight || text == "never":
	case text == "":
		m.Expire = defaultExpire
	default:
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Second {
			r.errorf(n, "expire must be a duration of at least 1s, such as 15m, or never")
		}
		m.Expire = d
	}
}

// help returns the help of a metric whose rule has none.
func (m *Metric) help() string {
	in := ""
	if m.Unit != "" {
		in = ", in " + m.Unit
	}
	switch m.Kind {
	case Counter:
		if m.Value == "" {
			return fmt.Sprintf("Events of %s.", m.Probe)
		}
		return fmt.Sprintf("Sum of %s of the events of %s%s.", m.Value, m.Probe, in)
	case Gauge:
		return fmt.Sprintf("Latest %s of %s%s.", m.Value, m.Probe, in)
	case Histogram:
		return fmt.Sprintf("Distribution of %s of %s%s.", m.Value, m.Probe, in)
	case Duration:
		if calls, ok := m.Calls(); ok {
			return fmt.Sprintf("Time of the calls of %s%s.", calls, in)
		}
		return fmt.Sprintf("Time from %s to %s%s.", m.Start, m.End, in)
	}
	return fmt.Sprintf("Operations that %s has started and %s has not ended.", m.Start, m.End)
}
