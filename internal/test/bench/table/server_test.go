//go:build linux

package table

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// shopRare is the name of a function that is called for one request in a hundred.
const shopRare = "main.(*shop).appraise"

// shopFunctions are the functions that each request to the server runs through once.
var shopFunctions = []string{"main.(*shop).handle", "main.(*shop).find", "main.render"}

// The ways in which these are traced, and keys of what was measured.
const (
	serverUntraced = "server untraced"
	serverCalls    = "server calls"
	serverReturns  = "server returns"
	serverBpftrace = "server bpftrace"
	// budgetShare is what the probes have cost with --budget 1%, as a part of the server's processor time: events times
	// the prices of this run. budgetOwn is what the command says of it.
	budgetShare = "server budget"
	budgetOwn   = "server budget own"
)

// shopSpecs are the specs of the functions, or of their returns.
func shopSpecs(suffix string) (specs []string) {
	for _, name := range shopFunctions {
		specs = append(specs, "go:"+name+suffix)
	}
	return specs
}

// server is the HTTP server that is traced.
type server struct {
	*tracetest.Process
	path, port string
}

// startServer starts it, and warms it up.
func startServer(t testing.TB) *server {
	s := &server{path: copyProgram(t, "functions", "server")}
	s.Process = tracetest.Command(t, exec.Command(s.path, "serve"))
	s.port = s.Expect("ready ", testenv.Patience)
	s.load(t, time.Second)
	return s
}

// load keeps the server busy, and returns how many requests it has answered, and how many in a second.
func (s *server) load(t testing.TB, duration time.Duration) (answered int, rate float64) {
	out, err := exec.Command(s.path, "load", s.port, fmt.Sprint(duration.Seconds())).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var errors, took int
	_, err = fmt.Sscanf(string(out), "answered %d %d %d", &answered, &errors, &took)
	require.NoError(t, err, "%s", out)
	require.Zero(t, errors, "%s", out)
	return answered, float64(answered) / time.Duration(took).Seconds()
}

// measureServer measures how many requests a server at full load answers, in rounds of all ways. It fails when a request
// does, and when a tracer has not counted every call.
func (r results) measureServer(t testing.TB, rounds int) {
	s := startServer(t)
	for range rounds {
		for _, l := range serverLines {
			r[l.way] = append(r[l.way], s.traced(t, l.way))
		}
	}
	s.Hangup()
	require.NoError(t, s.Wait(testenv.Patience))
}

// traced returns the rate of requests while the functions are traced in a way.
func (s *server) traced(t testing.TB, way string) (rate float64) {
	const duration = 2 * time.Second
	suffix := ""
	switch way {
	case serverUntraced:
		_, rate = s.load(t, duration)
		return rate
	case serverBpftrace:
		var probes []string
		for _, name := range shopFunctions {
			probes = append(probes, fmt.Sprintf("uprobe:%s:%q", s.path, name))
		}
		tracer := tracetest.Bpftrace(t, strings.Join(probes, ", ")+" { @ = count(); }", "-p", strconv.Itoa(s.PID()))
		answered, rate := s.load(t, duration)
		require.GreaterOrEqual(t, counted(t, tracer), len(shopFunctions)*answered)
		return rate
	case serverReturns:
		suffix = ":return"
	}
	w := watch(t, s.PID(), append([]string{"count"}, shopSpecs(suffix)...)...)
	answered, rate := s.load(t, duration)
	counts := stopWatching(t, w)
	for _, name := range shopFunctions {
		require.Equal(t, answered, counts[name+suffix], "%v", counts)
	}
	return rate
}

// own finds what the command says that the probes have taken.
var own = regexp.MustCompile(`the probes took \S+ of \S+ of the program's processor time, ([\d.e+-]+) %`)

// measureBudget measures what calls and returns cost a server at full load, of which the command detaches from those
// that exceed a budget of 1 %. A function that is called seldom stays. The prices of events are those of
// measureFunctions.
func (r results) measureBudget(t testing.TB) {
	s := startServer(t)
	before := tracetest.ProcessorTime(t, s.PID())
	specs := slices.Concat([]string{"count", "--budget", "1%"}, shopSpecs(""), shopSpecs(":return"), []string{"go:" + shopRare})
	w := watch(t, s.PID(), specs...)
	answered, _ := s.load(t, 20*time.Second)
	used := tracetest.ProcessorTime(t, s.PID()) - before
	counts := stopWatching(t, w)
	call := r.difference(functionKey(pushCalls), functionKey(untracedCalls))
	back := r.difference(functionKey(returnCalls), functionKey(pushCalls))
	cost := 0.0
	for _, name := range append(slices.Clone(shopFunctions), shopRare) {
		cost += float64(counts[name])*call + float64(counts[name+":return"])*back
	}
	require.GreaterOrEqual(t, counts[shopRare], answered/100/2, "%v", counts)
	require.LessOrEqual(t, counts[shopFunctions[0]], answered/10, "%v", counts)
	r[budgetShare] = []float64{100 * cost / float64(used)}
	require.Contains(t, w.Dump(), "detached from ")
	said := own.FindStringSubmatch(w.Dump())
	require.NotNil(t, said, "the command does not say what the probes cost: %s", w.Dump())
	r[budgetOwn] = []float64{tracetest.Must(strconv.ParseFloat(said[1], 64))(t)}
}
