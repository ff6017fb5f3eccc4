package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// measure measures a server in one way. It fails if not every event was seen.
func measure(s server, w watch) (f figures, err error) {
	address, recording, lines := free(), *work+"/recording", *work+"/log"
	cmd := s.start(address, w.way)
	cmd.Env = append(cmd.Env, "WAY="+w.way, "LOG="+lines)
	if w.record {
		cmd.Env = append(cmd.Env, "STAPSDT_RECORD="+recording)
	}
	if slices.Contains(w.count, "socket") {
		cmd.Env = append(cmd.Env, "STAPSDT_SOCKET=1")
	}
	check(cmd.Start())
	defer func() {
		stop(cmd)
		os.Remove(recording)
		os.Remove(lines)
		if err != nil {
			err = fmt.Errorf("%w\nThe server said: %s", err, cmd.Stderr)
		}
	}()
	if err := answering(address); err != nil {
		return f, err
	}
	var counters []*exec.Cmd
	for _, route := range w.count {
		c := count(s, w, "--via", route, "-p", strconv.Itoa(cmd.Process.Pid))
		defer stop(c)
		counters = append(counters, c)
		if err := until(c, "of 1 process"); err != nil {
			return f, err
		}
	}
	var e *exporter
	if w.export != nil {
		if e, err = export(w.export); err != nil {
			return f, err
		}
		defer stop(e.Cmd)
	}
	warm, err := s.load(address, 1, 0)
	if err != nil {
		return f, err
	}
	before := processor(cmd.Process.Pid)
	f.load, err = s.load(address, *seconds, warm.rate)
	if err != nil {
		return f, err
	}
	f.processor = (processor(cmd.Process.Pid) - before) / float64(f.requests)
	requests := warm.requests + f.requests
	for _, c := range counters {
		stop(c)
		seen, lost, err := s.counted(w, c.Stdout.(*words).String(), requests)
		if err != nil {
			return f, err
		}
		f.seen, f.lost = f.seen+seen, f.lost+lost
	}
	if e != nil {
		if f.seen, err = e.seen(); err != nil {
			return f, err
		}
	}
	stop(cmd)
	if w.record {
		out, err := run(count(s, w, "--from", recording))
		if err != nil {
			return f, err
		}
		seen, replaced, err := s.counted(w, out, requests) // a recording has the last ones
		if err != nil {
			return f, err
		}
		f.seen += seen + replaced
	}
	if text, err := os.ReadFile(lines); err == nil {
		if f.seen = bytes.Count(text, []byte("\n")); f.seen < requests {
			return f, fmt.Errorf("%d lines are logged for %d requests", f.seen, requests)
		}
	}
	return f, nil
}

// count is a stapsdt count of a server's probes.
func count(s server, w watch, from ...string) *exec.Cmd {
	args := append(append(append([]string{"count", "-v", "-o", "json"}, w.flags...), from...), w.specs...)
	if w.specs == nil {
		args = append(args, "app:*")
	}
	return program("stapsdt", args...)
}

// counted returns how many events a stapsdt count has counted, and how many were lost. It fails if they are not those of the
// requests, and of at most as many more as were under way whenever a client ended.
func (s server) counted(w watch, out string, requests int) (seen, lost int, err error) {
	for line := range strings.Lines(out) {
		var row struct{ Count, Lost int }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			return 0, 0, err
		}
		seen, lost = seen+row.Count, lost+row.Lost
	}
	each := s.events * max(1, len(w.specs))
	least, most := requests*each, (requests+4*connections)*each
	if w.other {
		least, most = 1, 100*requests
	}
	if all := seen + lost; all < least || all > most {
		return 0, 0, fmt.Errorf("%d events of %d requests, which have %d each", all, requests, each)
	}
	return seen, lost, nil
}

// program is a command that ends with this one.
func program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = os.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = &words{}, &words{}
	return cmd
}

// words are what a command has printed.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// run runs a command and returns what it prints on standard output.
func run(cmd *exec.Cmd) (string, error) {
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%v: %w: %s%s", cmd.Args, err, cmd.Stdout, cmd.Stderr)
	}
	return cmd.Stdout.(*words).String(), nil
}

// until starts a command and returns when it has printed a text on standard error.
func until(cmd *exec.Cmd, text string) error {
	check(cmd.Start())
	said := cmd.Stderr.(*words)
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(said.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			stop(cmd)
			return fmt.Errorf("%v has not said %q, but: %s", cmd.Args, text, said)
		}
	}
	return nil
}

// stop ends a command, and waits for it. A program that a script starts in the background may ignore SIGINT.
func stop(cmd *exec.Cmd) {
	if cmd.Process == nil || cmd.ProcessState != nil {
		return
	}
	cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
	cmd.Wait()
	kill.Stop()
}

const host = "127.0.0.1"

// free returns an address at which nothing listens.
func free() string {
	l, err := net.Listen("tcp", host+":0")
	check(err)
	defer l.Close()
	return l.Addr().String()
}

func port(address string) string { return strings.TrimPrefix(address, host+":") }

// answering waits until a server listens.
func answering(address string) error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// processor returns the processor time of a process in microseconds, of which Linux tells hundredths of a second.
func processor(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	check(err)
	system, err := strconv.Atoi(fields[12])
	check(err)
	return float64(user+system) * 10_000
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
