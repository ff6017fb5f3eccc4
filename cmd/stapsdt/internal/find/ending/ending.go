// Package ending finds out how a process has ended, from what systemd, the journal, the kernel and
// Kubernetes know of it.
package ending

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The sources of an Ending.
const (
	Systemd    = "systemd"
	Journal    = "journal"
	Kernel     = "kernel"
	Kubernetes = "kubernetes"
)

// Ending is what a source tells about the end of a process.
type Ending struct {
	Source string     `json:"source" doc:"what tells it" enum:"systemd journal kernel kubernetes"`
	Text   string     `json:"text" doc:"how the process ended; for people"`
	Reason string     `json:"reason,omitempty" doc:"of the end; in the words of the source, such as oom-kill"`
	Time   *time.Time `json:"time,omitempty" doc:"of the end"`
}

// Life is the process of a recording that has ended.
type Life struct {
	PID        uint32
	Executable string
	// Began and Last are the times of day of the beginning of the recording and of its last event,
	// and Ahead is how far the time of day is ahead of CLOCK_MONOTONIC.
	Began, Last time.Time
	Ahead       time.Duration
	// Here means that the process ran since the machine has booted.
	Here bool
}

// Container is what Kubernetes tells about a container.
type Container struct {
	// Pod is NAMESPACE/POD/CONTAINER, as a command line has it.
	Pod        string `json:"pod"`
	Reason     string `json:"reason,omitempty"`
	ExitCode   int    `json:"exitCode"`
	Signal     int    `json:"signal,omitempty"`
	Message    string `json:"message,omitempty"`
	StartedAt  string `json:"startedAt,omitempty"`
	FinishedAt string `json:"finishedAt,omitempty"`
}

// ParseContainer parses a Container in JSON.
func ParseContainer(text string) (*Container, error) {
	c := &Container{}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return nil, fmt.Errorf("this is not the status of a container: %w", err)
	}
	return c, nil
}

// slack is the difference of two times of one event: Kubernetes rounds to seconds.
const slack = 2 * time.Second

// Ending returns the end of a container's last life, if this is the life of a process.
func (c *Container) Ending(l *Life) (all []Ending) {
	if c == nil || c.FinishedAt == "" {
		return nil
	}
	started, startErr := time.Parse(time.RFC3339, c.StartedAt)
	finished, err := time.Parse(time.RFC3339, c.FinishedAt)
	if err != nil || startErr != nil || l.Began.Before(started.Add(-slack)) ||
		l.Last.After(finished.Add(slack)) {
		return nil
	}
	text := fmt.Sprintf("the container ended with status %d", c.ExitCode)
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	if message := strings.TrimSpace(c.Message); message != "" {
		text += ": " + message
	}
	return []Ending{{Source: Kubernetes, Text: text, Reason: c.Reason, Time: &finished}}
}

// oomKill is the result of a unit of which the OOM killer has killed a process.
const oomKill = "oom-kill"

// service is how systemd describes the end of a service's main process: its result, such as
// oom-kill, how the process ended, which is exited, killed or dumped, and its status or signal.
type service struct{ unit, result, code, status string }

// ending returns the Ending.
func (s *service) ending(source string) Ending {
	e := Ending{Source: source, Reason: s.result}
	switch s.code {
	case "exited":
		e.Text = "exited with status " + s.status
	case "killed":
		e.Text = "killed by SIG" + s.status
	case "dumped":
		e.Text = "killed by SIG" + s.status + ", with a core dump"
	default:
		e.Text = "ended"
	}
	if s.unit != "" {
		e.Text = s.unit + ": " + e.Text
	}
	switch s.result {
	case "", "success", "exit-code", "signal", "core-dump":
	case oomKill:
		e.Text += ", because memory ran out (oom-kill)"
	default:
		e.Text += " (" + s.result + ")"
	}
	return e
}
