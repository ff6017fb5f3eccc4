//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// script is what every subject with probes is traced with.
const script = `usdt:*:bench:* { @ = count(); }`

// tracer is a bpftrace that is attached to a process.
type tracer struct {
	cmd   *exec.Cmd
	out   output
	ended chan error
}

// output is what a program printed, to be read while it runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// marker is printed by bpftrace when its probes are attached, if the environment
// has a variable of that name. It is what bpftrace's own tests wait for.
const marker = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

// attach runs a script on a process, and returns when it is attached.
func attach(pid int, script string) (*tracer, error) {
	t := &tracer{cmd: exec.Command("bpftrace", "-B", "line", "-p", strconv.Itoa(pid), "-e", script), ended: make(chan error, 1)}
	t.cmd.Env = append(os.Environ(), marker+"=1")
	t.cmd.Stdout, t.cmd.Stderr = &t.out, &t.out
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { t.ended <- t.cmd.Wait() }()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(t.out.String(), marker); {
		select {
		case err := <-t.ended:
			return nil, fmt.Errorf("bpftrace has ended: %w\n%s", err, t.out.String())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.kill()
			return nil, fmt.Errorf("bpftrace does not attach\n%s", t.out.String())
		}
	}
	return t, nil
}

var counted = regexp.MustCompile(`(?m)^@: (\d+)$`)

// stop ends bpftrace and returns what it has counted.
func (t *tracer) stop() (int, error) {
	for range 5 {
		if err := t.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return 0, err
		}
		select {
		case err := <-t.ended:
			t.ended <- err // for kill
			count := counted.FindStringSubmatch(t.out.String())
			if err != nil || count == nil {
				return 0, fmt.Errorf("bpftrace: %w\n%s", err, t.out.String())
			}
			return strconv.Atoi(count[1])
		case <-time.After(3 * time.Second):
			// 0.17 may miss an interrupt: again.
		}
	}
	return 0, fmt.Errorf("bpftrace does not end\n%s", t.out.String())
}

// kill makes sure that it has ended.
func (t *tracer) kill() {
	_ = t.cmd.Process.Kill() // it may have ended
	<-t.ended
}
