//go:build linux

package metric

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// shop records operations of p:op with the ids 1 to 3, of which the last does not end, and values of p:v.
func shop(start uint64) []byte {
	r := eventtest.Recording{Head: recording.Head{Start: start}}
	begin, end := r.Probe("p", "op__start", "id", "class"), r.Probe("p", "op__end", "id")
	value := r.Probe("p", "v", "n", "text")
	at := func(seconds int, p *recording.Probe, words ...uint64) eventtest.Fired {
		f := eventtest.Fired{Probe: p, At: time.Duration(seconds) * time.Second, Words: words}
		if p == value {
			f.Texts = []string{fmt.Sprintf("%c\x00rest", 'a'+seconds%2)}
		}
		return f
	}
	r.Chunk(0, 0,
		at(1, begin, 1, 7), at(2, begin, 2, 8), at(3, begin, 3, 7), at(4, end, 1), at(7, end, 2),
		at(8, value, 1), at(9, value, 10), at(10, value, 4), at(11, value, 1000), at(12, value, start),
	)
	return r.Bytes()
}

// measured returns the metric of a rule for the recordings of some processes, by their start times.
func measured(t *testing.T, text rules.Metric, of cgroup.Container, starts ...uint64) (m *Recorded, files []*replay.File, problems *[]string) {
	t.Helper()
	problems = &[]string{}
	text.Name = "m"
	m = NewRecorded(text, of, time.Unix(1, 0), func(err error) { *problems = append(*problems, err.Error()) })
	for _, start := range starts {
		r, err := replay.New(nil, "", nil)
		require.NoError(t, err)
		f, err := r.Add(bytes.NewReader(shop(start)), &replay.Process{PID: int(start), Executable: "/bin/shop"}, func() {})
		require.NoError(t, err)
		files = append(files, f)
		for _, p := range f.Probes() {
			m.Meet(p)
		}
		_, err = r.More()
		require.NoError(t, err)
		for {
			e, _, err := r.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			m.Add(e, f)
		}
	}
	return m, files, problems
}

// numbers returns the numbers of each series, by its labels.
func numbers(r Reading) map[string]string {
	all := map[string]string{}
	for _, s := range r.Series {
		text := fmt.Sprint(s.Value)
		if r.Kind == expose.Histogram {
			text = fmt.Sprint(s.Sum, s.Buckets, s.Zero, s.Exponential)
		}
		all[fmt.Sprintf("%q", s.Values)] = text
	}
	return all
}

// TestKinds: each kind of metric has the numbers of the events that its rule selects, in its unit, by the labels of the rule.
func TestKinds(t *testing.T) {
	text := []rules.Label{{Name: "text", Expr: "text"}}
	class := []rules.Label{{Name: "class", Expr: "class"}}
	for name, c := range map[string]struct {
		rule                rules.Metric
		want                map[string]string
		events, unevaluated uint64
	}{
		"events":      {rules.Metric{Probe: querytest.Spec("p:v"), By: text, Series: 9}, map[string]string{`["a" "" "" ""]`: "3", `["b" "" "" ""]`: "2"}, 5, 0},
		"sum":         {rules.Metric{Probe: querytest.Spec("p:v"), Value: "n", Scale: 0.5, Where: "n != 1000", Series: 9}, map[string]string{`["" "" ""]`: "10"}, 4, 0},
		"negative":    {rules.Metric{Probe: querytest.Spec("p:v"), Value: "len(text) - 7", Scale: 1, Series: 9}, map[string]string{`["" "" ""]`: "0"}, 0, 5},
		"division":    {rules.Metric{Probe: querytest.Spec("p:v"), Where: "1 / (n - 10) == 0", Series: 9}, map[string]string{`["" "" ""]`: "4"}, 4, 1},
		"gauge":       {rules.Metric{Kind: rules.Gauge, Probe: querytest.Spec("p:v"), Value: "n", Scale: 2, By: text, Series: 9}, map[string]string{`["a" "" "" ""]`: "10", `["b" "" "" ""]`: "2000"}, 5, 0},
		"histogram":   {rules.Metric{Kind: rules.Histogram, Probe: querytest.Spec("p:v"), Value: "n", Scale: 1, Bounds: []float64{4, 10}, Series: 9}, map[string]string{`["" "" ""]`: "1020 [2 2 1] 0 map[]"}, 5, 0},
		"native":      {rules.Metric{Kind: rules.Histogram, Probe: querytest.Spec("p:v"), Value: "n - 1", Scale: 1, Native: true, Where: "n < 6", Series: 9}, map[string]string{`["" "" ""]`: "7 [] 1 map[13:1 16:1]"}, 3, 0},
		"duration":    {rules.Metric{Kind: rules.Duration, Start: querytest.Spec("p:op__start"), End: querytest.Spec("p:op__end"), Key: []string{"arg0"}, By: class, Bounds: []float64{3, 4}, Series: 9}, map[string]string{`["7" "" "" ""]`: "3 [1 0 0] 0 map[]", `["8" "" "" ""]`: "5 [0 0 1] 0 map[]"}, 2, 0},
		"two parts":   {rules.Metric{Kind: rules.Duration, Start: querytest.Spec("p:op__start"), End: querytest.Spec("p:op__end"), Key: []string{"pid", "arg0"}, By: class, Bounds: []float64{3, 4}, Series: 9}, map[string]string{`["7" "" "" ""]`: "3 [1 0 0] 0 map[]", `["8" "" "" ""]`: "5 [0 0 1] 0 map[]"}, 2, 0},
		"in flight":   {rules.Metric{Kind: rules.InFlight, Start: querytest.Spec("p:op__start"), End: querytest.Spec("p:op__end"), Key: []string{"arg0"}, By: class, Series: 9}, map[string]string{`["7" "" "" ""]`: "1", `["8" "" "" ""]`: "0"}, 5, 0},
		"overflow":    {rules.Metric{Probe: querytest.Spec("p:v"), By: []rules.Label{{Name: "n", Expr: "n"}}, Series: 2}, map[string]string{`["1" "" "" ""]`: "1", `["10" "" "" ""]`: "1", `[]`: "3"}, 5, 0},
		"patterns":    {rules.Metric{Probe: querytest.Spec("*:op__*"), Series: 9}, map[string]string{`["" "" "" "p" "op__start"]`: "3", `["" "" "" "p" "op__end"]`: "2"}, 5, 0},
		"executable":  {rules.Metric{Probe: querytest.Spec("p:v"), Select: rules.Select{Executable: "sh*"}, Process: []string{rules.Executable}, Series: 9}, map[string]string{`["shop" "" "" ""]`: "5"}, 5, 0},
		"other":       {rules.Metric{Probe: querytest.Spec("p:v"), Select: rules.Select{Executable: "ship"}, Series: 9}, map[string]string{`["" "" ""]`: "0"}, 0, 0},
		"none as yet": {rules.Metric{Kind: rules.Histogram, Probe: querytest.Spec("p:none"), Value: "n", Bounds: []float64{1}, Series: 9}, map[string]string{`["" "" ""]`: "0 [0 0] 0 map[]"}, 0, 0},
	} {
		m, _, problems := measured(t, c.rule, cgroup.Container{}, 5)
		r := m.Read()
		require.Empty(t, *problems, name)
		require.Equal(t, c.want, numbers(r), name)
		require.Equal(t, []uint64{c.events, c.unevaluated}, []uint64{r.Events, r.Unevaluated}, name)
	}
}

// TestContainers: the labels name the container as far as the rule asks for it, and its ID outside of pods or on request.
func TestContainers(t *testing.T) {
	pod, bare := cgroup.Container{ID: "id", Namespace: "ns", Pod: "web-66d4fc8747-xvd8j", Name: "app"}, cgroup.Container{ID: "id"}
	for _, c := range []struct {
		rule           rules.Metric
		of             cgroup.Container
		labels, values []string
		perContainer   bool
	}{
		{rules.Metric{}, pod, rules.PodLabels, []string{"", "", ""}, false},
		{rules.Metric{Process: rules.PodLabels}, pod, rules.PodLabels, []string{"ns", "web-66d4fc8747-xvd8j", "app"}, true},
		{rules.Metric{Process: rules.ProcessLabels[1:]}, pod, rules.ProcessLabels[1:], []string{"ns", "web", "web-66d4fc8747-xvd8j", "app", ""}, true},
		{rules.Metric{Process: rules.ProcessLabels[1:], PodIDs: true}, pod, rules.ProcessLabels[1:], []string{"ns", "web", "web-66d4fc8747-xvd8j", "app", "id"}, true},
		{rules.Metric{Process: rules.ProcessLabels[1:]}, bare, rules.ProcessLabels[1:], []string{"", "", "", "", "id"}, true},
		{rules.Metric{Process: []string{rules.Workload}}, pod, []string{"namespace", "workload", "pod", "container"}, []string{"", "web", "", ""}, false},
		{rules.Metric{Process: []string{rules.Pod}, By: []rules.Label{{Name: "container", Expr: "n"}}, Where: "n == 4"}, pod, []string{"container", "namespace", "pod"}, []string{"4", "", "web-66d4fc8747-xvd8j"}, false},
	} {
		c.rule.Probe, c.rule.Series = querytest.Spec("p:v"), 9
		m, _, _ := measured(t, c.rule, c.of, 5)
		f := m.Read().Family
		require.Equal(t, c.labels, f.Labels)
		require.Len(t, f.Series, 1)
		require.Equal(t, c.values, f.Series[0].Values)
		require.Equal(t, c.perContainer, f.PerContainer)
		require.Equal(t, c.perContainer, f.Series[0].Container == c.of)
	}
}

// TestEnds: a process that has ended leaves its counts, but neither its gauges nor its open operations. Another recording of a process that runs
// leaves both.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		rule                 rules.Metric
		both, dropped, alone string
	}{
		"counter":   {rules.Metric{Probe: querytest.Spec("p:v")}, "10", "10", "10"},
		"gauge":     {rules.Metric{Kind: rules.Gauge, Probe: querytest.Spec("p:v"), Value: "n", Scale: 1}, "6", "6", "5"},
		"in flight": {rules.Metric{Kind: rules.InFlight, Start: querytest.Spec("p:op__start"), End: querytest.Spec("p:op__end"), Key: []string{"arg0"}}, "2", "1", "1"},
	} {
		c.rule.Series = 9
		m, files, _ := measured(t, c.rule, cgroup.Container{}, 5, 6)
		now := func() string { return numbers(m.Read())[`["" "" ""]`] }
		require.Equal(t, c.both, now(), name)
		m.Drop(files[1])
		require.Equal(t, c.dropped, now(), name)
		m.Gone(files[1])
		require.Equal(t, c.alone, now(), name)
		m.Gone(files[0])
		require.Equal(t, map[string]string{"counter": "10", "gauge": "", "in flight": "0"}[name], now(), name)
	}
}

// TestProblems: what a rule asks for and the events do not have is said once for each probe, and other probes are counted.
func TestProblems(t *testing.T) {
	m, _, problems := measured(t, rules.Metric{Probe: querytest.Spec("p:*"), Where: "n > 0", Select: rules.Select{User: "root"}, Series: 9}, cgroup.Container{}, 5)
	require.EqualValues(t, 5, m.Read().Events)
	require.Len(t, *problems, 3)
	require.Equal(t, "m: neither users nor control groups are known here: the events of all are included", (*problems)[0])
	for i, name := range []string{"p:op__start", "p:op__end"} {
		require.Contains(t, (*problems)[1+i], "m: "+name+": ")
	}
	_, _, problems = measured(t, rules.Metric{Kind: rules.Histogram, Probe: querytest.Spec("p:v"), Value: "n", Bounds: []float64{1}, Series: 9}, cgroup.Container{}, 5)
	require.Equal(t, []string{"m: the unit of n is unknown: give scale, such as 1e-6 for microseconds"}, *problems)
	require.False(t, m.Follows(rules.Metric{}))
	require.True(t, m.Follows(m.Metric))
}
