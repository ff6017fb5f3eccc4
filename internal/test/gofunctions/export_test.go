//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// orders is a program that handles 100 requests for each line that it reads. NAME is the name of its
// function.
const orders = `package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"
)

type request struct { Path string; N int }

var errSeven = errors.New("a multiple of seven")

//go:noinline
func NAME(r *request, class string) (int, error) {
	if r.N%7 == 0 { return 0, errSeven }
	return pack(r.N) * 2, nil
}

//go:noinline
func pack(n int) int { return n + len(os.Args) }

func main() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {} // work that the calls are a part of
		for i := range 100 { NAME(&request{[]string{"/a", "/b"}[i%2], i + 1}, "c" + fmt.Sprint(i)) }
		fmt.Println("ok")
	}
}
`

const orderRules = `
budget: 100%
metrics:
  - {name: calls_total, probe: "go:main.handle", counter: 1, by: [{path: r.Path}], executable: orders, labels: []}
  - {name: classes_total, probe: "go:main.handle", counter: 1, by: [class], series: 5, executable: orders, labels: []}
  - {name: errors_total, probe: "go:main.handle:return", counter: 1, where: failed, executable: orders, labels: []}
  - {name: results_total, probe: "go:main.handle:return", counter: ret0, executable: orders, labels: []}
  - {name: handle_seconds, probe: "go:main.handle", duration: true, buckets: [1000], by: [failed], executable: orders, labels: []}
  - {name: every_seconds, probe: "go:main.*", duration: true, buckets: [1000], executable: "ord*", labels: [executable]}
  - {name: other_total, probe: "go:main.*", counter: 1, executable: no-orders, labels: []}
`

// functionExporter is the command export.
type functionExporter struct {
	*tracetest.Process
	t     testing.TB
	addr  string
	rules string // the path of its rules
}

func exportFunctions(t testing.TB, rules string, args ...string) *functionExporter {
	t.Helper()
	e := &functionExporter{t: t, rules: filepath.Join(t.TempDir(), "rules.yaml")}
	require.NoError(t, os.WriteFile(e.rules, []byte(rules), 0o600))
	args = append([]string{"export", "-c", e.rules, "--listen", "localhost:0"}, args...)
	e.Process = tracetest.Command(t, exec.Command(stapsdt(t), args...))
	e.addr = e.WaitSaid(regexp.MustCompile(`metrics are at (http://\S+/metrics)`), testenv.Patience)[1]
	return e
}

// podLabels are the labels that every series has.
var podLabels = regexp.MustCompile(`(container|namespace|pod)="",?|,(container|namespace|pod)=""`)

// values returns the values of series, by their names with labels.
func (e *functionExporter) values() map[string]string {
	response := tracetest.Must(http.Get(e.addr))(e.t)
	defer response.Body.Close()
	all := map[string]string{}
	for line := range strings.Lines(string(tracetest.Must(io.ReadAll(response.Body))(e.t))) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			name := strings.Replace(podLabels.ReplaceAllString(line[:at], ""), ",}", "}", 1)
			all[strings.TrimSuffix(name, "{}")] = strings.TrimSpace(line[at:])
		}
	}
	return all
}

// waits until series have values.
func (e *functionExporter) waits(want map[string]string) {
	e.t.Helper()
	var got map[string]string
	for end := time.Now().Add(testenv.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got = map[string]string{}
		all := e.values()
		for name := range want {
			got[name] = all[name]
		}
		if assert.ObjectsAreEqual(want, got) {
			return
		}
	}
	require.Equal(e.t, want, got, "%s", e.Dump())
}

// handles lets a program handle its 100 requests.
func handles(p *subject) {
	p.Say("go")
	p.Expect("ok", testenv.Patience)
}

// TestExport: an exporter counts and times the calls of the functions of an executable with a name,
// also if they are in another version of the file, and says which version has none.
func TestExport(t *testing.T) {
	testenv.NeedsRoot(t)
	first := build(t, strings.ReplaceAll(orders, "NAME", "handle"), nil)
	without := build(t, strings.ReplaceAll(orders, "NAME", "serve"), nil)
	later := build(t, strings.ReplaceAll(orders, "NAME", "handle")+"\nvar version = 3\n", nil, "-gcflags=-l")
	path := filepath.Join(t.TempDir(), "orders")
	replace(t, first, path)
	e := exportFunctions(t, orderRules)
	const every = `stapsdt_attached_sites{metric="every_seconds"}`

	p := launch(t, path)
	one := 0 // the sites of all functions
	for _, fn := range p.list("go:main.*") {
		one += 1 + len(fn.Returns)
	}
	e.waits(map[string]string{
		every: strconv.Itoa(one), `stapsdt_attached_sites{metric="calls_total"}`: "1",
		`stapsdt_attached_sites{metric="errors_total"}`: "2", `stapsdt_attached_sites{metric="handle_seconds"}`: "3",
	})
	handles(p)
	want := map[string]string{
		`calls_total{path="/a"}`: "50", `calls_total{path="/b"}`: "50",
		`classes_total{class="c0"}`: "1", `classes_total{class="c4"}`: "1", `classes_total{class="c5"}`: "",
		"errors_total": "14", "results_total": "8802",
		`handle_seconds_count{failed="true"}`: "14", `handle_seconds_count{failed="false"}`: "86",
		`every_seconds_count{executable="orders",function="main.handle"}`:  "100",
		`every_seconds_count{executable="orders",function="main.pack"}`:    "86",
		`stapsdt_lost_events_total{metric="handle_seconds",reason="full"}`: "0",
		`stapsdt_files_without_function_total{metric="calls_total"}`:       "0",
		`stapsdt_attached_sites{metric="other_total"}`:                     "0",
	}
	e.waits(want)

	replace(t, without, path)
	q := launch(t, path)
	e.waits(map[string]string{`stapsdt_files_without_function_total{metric="calls_total"}`: "1", `stapsdt_files_without_function_total{metric="every_seconds"}`: "0"})
	said := regexp.MustCompile(`orders has nothing for go:main\.handle(:return)?: there is no function main\.handle`)
	e.WaitSaid(said, testenv.Patience)
	e.waits(map[string]string{every: strconv.Itoa(2 * one)})
	handles(q)
	e.waits(map[string]string{
		`calls_total{path="/a"}`: "50", "errors_total": "14",
		`every_seconds_count{executable="orders",function="main.serve"}`: "100",
	})

	replace(t, later, path)
	r := launch(t, path)
	e.waits(map[string]string{`stapsdt_attached_sites{metric="calls_total"}`: "2"})
	handles(r)
	handles(p) // the first version still runs
	e.waits(map[string]string{
		`calls_total{path="/a"}`: "150", "errors_total": "42",
		`every_seconds_count{executable="orders",function="main.handle"}`: "300",
		`stapsdt_files_without_function_total{metric="calls_total"}`:      "1",
	})
	stop(t, e.Process)
	assert.Len(t, said.FindAllString(e.Dump(), -1), 1)
}

// TestExportReload: a rule for functions that is added later finds them in a file that is attached to
// already, and the other rules count on.
func TestExportReload(t *testing.T) {
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "orders")
	replace(t, build(t, strings.ReplaceAll(orders, "NAME", "handle"), nil), path)
	const rules = `
budget: 100%
metrics:
  - {name: calls_total, probe: "go:main.handle", counter: 1, executable: orders, labels: []}
`
	e := exportFunctions(t, rules)
	p := launch(t, path)
	e.waits(map[string]string{`stapsdt_attached_sites{metric="calls_total"}`: "1"})
	handles(p)
	const more = `  - {name: packs_total, probe: "go:main.pack", counter: n, executable: orders, labels: []}
`
	require.NoError(t, os.WriteFile(e.rules, []byte(rules+more), 0o600))
	e.waits(map[string]string{`stapsdt_attached_sites{metric="packs_total"}`: "1"})
	handles(p)
	e.waits(map[string]string{"calls_total": "200", "packs_total": "4315"})
}

// stormy is a program that calls hot all the time or, after the line calm, now and then.
const stormy = `package main

import (
	"bufio"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

var (
	calm atomic.Bool
	sink int
)

//go:noinline
func hot(n int) int { return leaf(n) + leaf(n+1) }

//go:noinline
func leaf(n int) int { return n*3 + 1 }

func main() {
	go func() {
		for {
			until := 0
			if calm.Load() {
				for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); { sink = leaf(sink) }
			} else {
				until = 1000
			}
			for n := range until + 1 { sink += hot(n) }
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") { calm.Store(in.Text() == "calm") }
}
`

// TestExportBudget: a function that exceeds the budget is detached from, and comes back when it has become
// cheap. A copy of the program that another process runs keeps its own functions.
func TestExportBudget(t *testing.T) {
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	program := build(t, stormy, nil)
	path, other := filepath.Join(dir, "stormy"), filepath.Join(dir, "stormy-2")
	replace(t, program, path)
	replace(t, program, other)
	quiet := launch(t, other)
	quiet.Say("calm")
	quiet.Expect("ok", testenv.Patience)
	e := exportFunctions(t, `
budget: 1%
metrics:
  - {name: hot_total, probe: "go:main.hot", counter: 1, executable: "stormy*", labels: [executable]}
  - {name: hot_seconds, probe: "go:main.hot", duration: true, buckets: [1000], executable: stormy, labels: []}
`)
	p := launch(t, path)
	e.waits(map[string]string{
		`stapsdt_detached_functions{metric="hot_total"}`: "1", `stapsdt_detached_functions{metric="hot_seconds"}`: "1",
		`stapsdt_attached_sites{metric="hot_total"}`: "1", `stapsdt_attached_sites{metric="hot_seconds"}`: "0",
	})
	e.WaitSaid(regexp.MustCompile(`/stormy: detached from go:main\.hot, because functions took .* but the budget is 1 %`), testenv.Patience)
	stormed := e.number(`hot_total{executable="stormy"}`)
	assert.Positive(t, stormed)
	before := e.number(`hot_total{executable="stormy-2"}`)
	require.Eventually(t, func() bool { return e.number(`hot_total{executable="stormy-2"}`) > before }, testenv.Patience, 20*time.Millisecond)

	p.Say("calm")
	p.Expect("ok", testenv.Patience)
	e.waits(map[string]string{
		`stapsdt_detached_functions{metric="hot_total"}`: "0", `stapsdt_detached_functions{metric="hot_seconds"}`: "0",
		`stapsdt_attached_sites{metric="hot_total"}`: "2", `stapsdt_attached_sites{metric="hot_seconds"}`: "2",
	})
	before = e.number("hot_seconds_count")
	require.Eventually(t, func() bool { return e.number("hot_seconds_count") > before }, testenv.Patience, 20*time.Millisecond)
	cost, used := e.number("stapsdt_function_cost_seconds_total"), e.number("stapsdt_function_programs_seconds_total")
	assert.Positive(t, cost)
	assert.Less(t, cost, 0.02*used)
}

// number returns the value of a series, or 0.
func (e *functionExporter) number(name string) float64 {
	n, _ := strconv.ParseFloat(e.values()[name], 64)
	return n
}
