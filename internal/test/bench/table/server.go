//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
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
	cmd  *exec.Cmd
	in   io.WriteCloser
	path string
	port string
}

func startServer() (s *server, err error) {
	s = &server{path: filepath.Join(*work, "functions-server")}
	if err := copyFile(filepath.Join(*work, "functions"), s.path); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(s.path, "serve")
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanErr := fmt.Sscanf(line, "ready %s", &s.port); scanErr != nil {
		s.stop()
		return nil, fmt.Errorf("the server is not ready: %q, %w", line, err)
	}
	return s, nil
}

func (s *server) stop() {
	s.in.Close()
	_ = s.cmd.Wait()
}

// load keeps the server busy, and returns how many requests it has answered, and how many in a second. An error of a
// request is one.
func (s *server) load(duration time.Duration) (answered int, rate float64, err error) {
	out, err := exec.Command(s.path, "load", s.port, fmt.Sprint(duration.Seconds())).CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %s", err, out)
	}
	var errors, took int
	if _, err := fmt.Sscanf(string(out), "answered %d %d %d", &answered, &errors, &took); err != nil || errors > 0 {
		return 0, 0, fmt.Errorf("requests have failed: %s", out)
	}
	return answered, float64(answered) / time.Duration(took).Seconds(), nil
}

// measureServer measures how many requests a server at full load answers, in rounds of all ways. It fails when a request
// does, and when a tracer has not counted every call.
func (r results) measureServer(rounds int) error {
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	if _, _, err := s.load(time.Second); err != nil {
		return err
	}
	for range rounds {
		for _, way := range []string{serverUntraced, serverCalls, serverReturns, serverBpftrace} {
			rate, err := s.traced(way)
			if err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
			r[way] = append(r[way], rate)
		}
	}
	return nil
}

// traced returns the rate of requests while the functions are traced in a way.
func (s *server) traced(way string) (rate float64, err error) {
	const duration = 2 * time.Second
	pid := s.cmd.Process.Pid
	suffix := ""
	switch way {
	case serverUntraced:
		_, rate, err = s.load(duration)
		return rate, err
	case serverBpftrace:
		var probes []string
		for _, name := range shopFunctions {
			probes = append(probes, fmt.Sprintf("uprobe:%s:%q", s.path, name))
		}
		t, err := attach(pid, strings.Join(probes, ", ")+" { @ = count(); }")
		if err != nil {
			return 0, err
		}
		defer t.kill()
		answered, rate, err := s.load(duration)
		if err != nil {
			return 0, err
		}
		seen, err := t.stop()
		if err == nil && seen < len(shopFunctions)*answered {
			err = fmt.Errorf("%d requests, in which bpftrace has counted %d calls", answered, seen)
		}
		return rate, err
	case serverReturns:
		suffix = ":return"
	}
	w, err := watch(pid, append([]string{"count"}, shopSpecs(suffix)...)...)
	if err != nil {
		return 0, err
	}
	answered, rate, err := s.load(duration)
	if err != nil {
		w.kill()
		return 0, err
	}
	counts, err := w.stop()
	for _, name := range shopFunctions {
		if err == nil && counts[name+suffix] != answered {
			err = fmt.Errorf("%d requests, in which calls were counted: %v", answered, counts)
		}
	}
	return rate, err
}

// own finds what the command says that the probes have taken.
var own = regexp.MustCompile(`the probes took \S+ of \S+ of the program's processor time, ([\d.e+-]+) %`)

// measureBudget measures what calls and returns cost a server at full load, of which the command detaches from those
// that exceed a budget of 1 %. A function that is called seldom stays. The prices of events are those of
// measureFunctions.
func (r results) measureBudget() error {
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	if _, _, err := s.load(time.Second); err != nil {
		return err
	}
	before, err := tracetest.ReadProcessorTime(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	specs := append(shopSpecs(""), append(shopSpecs(":return"), "go:"+shopRare)...)
	w, err := watch(s.cmd.Process.Pid, append([]string{"count", "--budget", "1%"}, specs...)...)
	if err != nil {
		return err
	}
	answered, _, err := s.load(20 * time.Second)
	if err != nil {
		w.kill()
		return err
	}
	after, err := tracetest.ReadProcessorTime(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	counts, err := w.stop()
	if err != nil {
		return err
	}
	call := r.difference(functionKey(pushCalls), functionKey(untracedCalls))
	back := r.difference(functionKey(returnCalls), functionKey(pushCalls))
	cost := 0.0
	for _, name := range append(slices.Clone(shopFunctions), shopRare) {
		cost += float64(counts[name])*call + float64(counts[name+":return"])*back
	}
	if rare := answered / 100; counts[shopRare] < rare/2 || counts[shopFunctions[0]] > answered/10 {
		return fmt.Errorf("%d requests, in which calls were counted: %v\n%s", answered, counts, w.err.String())
	}
	r[budgetShare] = []float64{100 * cost / float64(after-before)}
	said := own.FindStringSubmatch(w.err.String())
	if said == nil || !strings.Contains(w.err.String(), "detached from ") {
		return fmt.Errorf("the command does not say what the probes cost: %s", w.err.String())
	}
	share, err := strconv.ParseFloat(said[1], 64)
	r[budgetOwn] = []float64{share}
	return err
}
