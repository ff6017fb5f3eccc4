//go:build unix

package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

const (
	// grace is the time that a command has to gather its results after a signal. The command in the
	// pod has less.
	grace = 20 * time.Second
	// statusKilled is the exit status of a command that SIGKILL has ended.
	statusKilled = 128 + int(syscall.SIGKILL)
)

type session struct {
	kubectl  *kubectl
	terminal bool
	out      io.Writer
	problems *filter

	command *exec.Cmd
	input   io.WriteCloser // nil with a terminal
}

// start starts kubectl exec. Without a terminal it has its own process group, so that Ctrl-C does
// not end it before the results have arrived, and its standard input is a pipe. When the pipe ends,
// the command in the pod ends too.
func (s *session) start(args []string) (err error) {
	words := append([]string{"exec", "--stdin"}, s.kubectl.flags...)
	if s.terminal {
		words = append(words, "--tty")
	}
	s.command = exec.Command(s.kubectl.path, append(words, args...)...)
	s.command.Stdout, s.command.Stderr = s.out, s.problems
	s.command.WaitDelay = time.Second
	if s.terminal {
		s.command.Stdin = os.Stdin
	} else {
		s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if s.input, err = s.command.StdinPipe(); err != nil {
			return err
		}
	}
	return s.command.Start()
}

// release ends the command in the pod without a terminal, whatever it waits for. The line tells it
// that the connection was not lost.
func (s *session) release() {
	s.stop()
	s.input.Close()
}

// stop ends the command in the pod without a terminal as Ctrl-C does.
func (s *session) stop() { _, _ = io.WriteString(s.input, "\n") }

// kill ends kubectl. Its command in the pod ends with the connection.
func (s *session) kill() { _ = s.command.Process.Kill() }

// errKilled means that SIGKILL has ended the command.
var errKilled = errors.New("the command in the pod was killed, probably because the pod was short of memory")

// wait waits until the command has ended, and returns its exit status.
func (s *session) wait() (status int, err error) {
	err = s.command.Wait()
	remote, said := s.problems.end()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case remote == statusKilled:
		return 1, errKilled
	case remote > 0:
		return remote, nil
	case errors.As(err, &exit) && isReaderGone(exit):
		return 0, nil
	case errors.Is(err, exec.ErrWaitDelay):
		return 0, nil
	}
	err = kubectlError(said, err)
	if errors.Is(err, errForbidden) || errors.Is(err, errNotFound) {
		return 1, err
	}
	return 1, fmt.Errorf("the connection to the pod was lost: %w", err)
}

// isReaderGone reports whether kubectl has ended because its output is no longer read.
func isReaderGone(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGPIPE
}

// keepAlive starts the keepalive of a command with a terminal. done ends the keepalive, and the
// command if it still runs.
func (k *kubectl) keepAlive(at *place, token string) (done func(), err error) {
	c := &session{kubectl: k, out: io.Discard, problems: &filter{to: io.Discard}}
	if err := c.start(append(at.exec(), binary, inpod.Verb, inpod.Keepalive, token)); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.wait()
	}()
	return func() {
		c.release()
		select {
		case <-ended:
		case <-time.After(2 * time.Second):
			c.kill()
		}
	}, nil
}

// catchSignals keeps signals from ending this program. They wait for onSignal.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, console.Ends()...)
	return signals
}

// onSignal ends the running session at a signal, and kills kubectl at a second signal or after a
// while.
func (s *session) onSignal(signals chan os.Signal) (done func()) {
	ended := make(chan struct{})
	var once sync.Once
	go func() {
		var late <-chan time.Time
		for {
			select {
			case <-ended:
				return
			case <-late:
				s.kill()
			case <-signals:
				if late != nil {
					s.kill()
				}
				s.stop()
				late = time.After(grace)
			}
		}
	}()
	return func() {
		once.Do(func() {
			signal.Stop(signals)
			close(ended)
		})
	}
}

// terminated is the line with which kubectl reports the exit status of the command.
var terminated = lazyregexp.New(`^command terminated with exit code (\d+)$`)

// kubectlLine matches the beginning of a line that is printed by kubectl, not by the command in the
// pod.
var kubectlLine = lazyregexp.New(`^(error: |Error from server|Unable to connect to the server|[EWIF]\d{4} |The connection to the server )`)

// filter forwards the lines that the command in the pod writes to standard error, and keeps the
// lines of kubectl. Its methods may be called by one goroutine at a time.
type filter struct {
	to     io.Writer
	rest   []byte // an incomplete line
	status int
	said   strings.Builder
}

func (f *filter) Write(b []byte) (int, error) {
	f.rest = append(f.rest, b...)
	for {
		i := bytes.IndexByte(f.rest, '\n')
		if i < 0 {
			return len(b), nil
		}
		f.line(f.rest[:i+1])
		f.rest = f.rest[i+1:]
	}
}

func (f *filter) line(line []byte) {
	text := strings.TrimRight(string(line), "\r\n")
	if match := terminated().FindStringSubmatch(text); match != nil {
		f.status, _ = strconv.Atoi(match[1])
		return
	}
	if kubectlLine().MatchString(text) {
		f.said.WriteString(text + "\n")
		return
	}
	_, _ = f.to.Write(line)
}

// end returns the exit status of the command in the pod, or 0 if it is unknown, and the lines of
// kubectl.
func (f *filter) end() (status int, said string) {
	if len(f.rest) > 0 {
		f.line(append(f.rest, '\n'))
		f.rest = nil
	}
	return f.status, f.said.String()
}
