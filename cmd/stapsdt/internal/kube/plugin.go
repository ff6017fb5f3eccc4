//go:build unix

package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/outfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"

	"golang.org/x/sys/unix"
)

// Name is the name of the command as a plugin of kubectl.
const Name = "kubectl-stapsdt"

// IsPlugin reports whether a program was called as the plugin.
func IsPlugin(path string) bool { return filepath.Base(path) == Name }

// The exit statuses of the plugin itself. The command in the pod uses them with the same meaning.
const (
	exitFailure = 1
	exitUsage   = 2
	exitNothing = 3
	exitRights  = 4
)

// localVerb runs a verb of the command, with its flags and arguments, on this machine. It takes the
// events of pods, and returns its exit status.
type localVerb = func(pods replay.Replicas, args []string) int

// Main runs the plugin and returns its exit status. It calls verb for the events of several pods.
func Main(args []string, version string, verb localVerb, stdout, stderr *os.File) int {
	status := 0
	c := newCommand(version, func(r *Request) (err error) {
		status, err = execute(r, verb, stdout, stderr)
		return err
	})
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	if err := c.Execute(); err != nil {
		warn(stderr, "%v", err)
		return statusOf(err)
	}
	return status
}

func statusOf(err error) int {
	var pods *podsError
	switch {
	case errors.Is(err, query.ErrUsage):
		return exitUsage
	case errors.As(err, &pods):
		return pods.status
	case errors.Is(err, errForbidden), errors.Is(err, errSilent):
		return exitRights
	case errors.Is(err, errNotFound):
		return exitNothing
	}
	return exitFailure
}

func warn(to io.Writer, format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	fmt.Fprintf(to, "stapsdt: %s\n", text.Printable(line))
}

// execution holds the state of a running request.
type execution struct {
	request *Request
	kubectl *kubectl
	subject *subject
	out     io.Writer
	err     io.Writer
	token   string // shared by a command with a terminal and its keepalive
	// signals end the command unless it has a terminal. They are caught before its place is
	// searched, so that none is missed between the search and the command.
	signals chan os.Signal
}

func (a *execution) warn(format string, args ...any) { warn(a.err, format, args...) }

// execute executes a request, and returns the exit status of the command in the pod.
func execute(r *Request, verb localVerb, stdout, stderr *os.File) (status int, err error) {
	k, err := newKubectl(r.clusterFlags)
	if err != nil {
		return 0, err
	}
	if r.selection.several() {
		return newFan(k, r, stdout, stderr).execute(verb)
	}
	a := &execution{request: r, kubectl: k, out: stdout, err: stderr}
	if !a.isTerminal() {
		a.signals = catchSignals()
	}
	at, err := a.prepare()
	if err != nil {
		return 0, err
	}
	return a.run(at)
}

// prepare finds the container, and a place that can execute the request.
func (a *execution) prepare() (*place, error) {
	ctx, stop := signal.NotifyContext(context.Background(), console.Ends()...)
	defer stop()
	var err error
	if a.subject, err = a.kubectl.find(ctx, &a.request.selection); err != nil {
		a.subject, err = a.stopped(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	a.subject.recorded = append(a.subject.recorded, a.request.recorded()...)
	if a.subject.note != "" {
		a.warn("%s", a.subject.note)
	}
	at, err := a.kubectl.locate(ctx, a.request, a.subject)
	if err == nil && a.request.values["verbose"] == "true" {
		a.warn("the request runs in %v", at)
	}
	return at, err
}

// run executes the request in a place, and returns the exit status of the command there.
func (a *execution) run(at *place) (status int, err error) {
	out := a.out
	r := a.request
	if r.verb == "record" {
		return a.record(at)
	}
	var extra []string
	if r.verb == postmortemVerb {
		extra = append(extra, "--"+inpod.Container+"="+a.subject.ended())
	}
	if file := r.values[fileFlag]; file != "" { // a timeline
		extra = append(extra, "--output-file=-")
		if file != "-" {
			f, openErr := outfile.Create(file, outfile.Timelines[r.values["output"]])
			if openErr != nil {
				return 0, openErr
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			out = f
		}
	}
	s := &session{
		kubectl: a.kubectl, out: out, problems: &filter{to: a.err}, terminal: a.isTerminal(),
	}
	if s.terminal {
		a.token = rand.Text()
		done, err := a.kubectl.keepAlive(at, a.token)
		if err != nil {
			return 0, err
		}
		defer done()
		signal.Ignore(syscall.SIGINT) // the terminal sends Ctrl-C through the connection
	}
	if err := s.start(a.words(at, extra...)); err != nil {
		return 0, err
	}
	if !s.terminal {
		defer s.onSignal(a.signals)()
	}
	return s.wait()
}

// isTerminal reports whether the command in the pod gets a terminal, because standard input and
// output are terminals.
func (a *execution) isTerminal() bool {
	_, in := columns(os.Stdin)
	_, out := columns(a.out)
	return in && out && a.request.values[fileFlag] == ""
}

// words returns the arguments of kubectl exec.
func (a *execution) words(at *place, extra ...string) []string {
	args := at.ask(a.subject)
	width, out := columns(a.out)
	switch {
	case a.isTerminal():
		args = append(args, "--terminal="+a.token)
	case out:
		args = append(args, "--columns="+strconv.Itoa(width))
		if os.Getenv("TERM") != "dumb" {
			args = append(args, "--color")
		}
	}
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		args = append(args, "--no-color")
	}
	args = append(args, "--", a.request.verb)
	args = append(append(args, a.request.passed...), extra...)
	return append(append(args, "--"), a.request.args...)
}

// columns returns the width of a terminal, or false if w is not a terminal.
func columns(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
