//go:build linux

package tracers

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// row is a tracer, and a way to use it.
type row struct {
	tool    string
	way     string
	version func() string
	// works fails the test where the tracer does not do what it should.
	works func(t *testing.T, s *subject)
	// remark is what else there is to say where it works.
	remark func(k kind) string
	// lacks reports whether such subjects have nothing that the row is about. It is nil if all have.
	lacks func(k kind) bool
	// cannot returns why it cannot do it with such a subject, or nil. It is nil where there is no such subject.
	cannot func(k kind) *obstacle
	// inGuest means that scripts/lib/guests.sh tries it in a guest, whose kernel has what this one lacks.
	inGuest bool
}

// obstacle is why a tracer cannot work.
type obstacle struct {
	why string
	// proof fails the test unless the tracer fails for that reason.
	proof func(t *testing.T, s *subject)
}

// always is an obstacle to tracing any subject, and onlyIn to tracing some.
func always(o obstacle) func(kind) *obstacle { return func(kind) *obstacle { return &o } }

func onlyIn(applies func(kind) bool, o obstacle) func(kind) *obstacle {
	return func(k kind) *obstacle {
		if applies(k) {
			return &o
		}
		return nil
	}
}

func inMemfd(k kind) bool { return k.memfd }

// ofGo is a remark on the subjects in Go: those in C fire nothing that it is about.
func ofGo(text string) func(kind) string {
	return func(k kind) string {
		if k.isC() {
			return ""
		}
		return text
	}
}

func allRows() []row {
	if *guest != "" {
		return guestRows()
	}
	var rows []row
	for _, h := range []host{{}, {newest: true}} {
		rows = slices.Concat(rows, bpftraceRows(h), bccRows(h), perfRows(h), gdbRows(h), elfRows(h), libbpfRows(h))
	}
	rows = slices.Concat(rows, dtraceRows(), ciliumRows(), kernelRows(), otherRows())
	for _, h := range []host{{}, {newest: true}} {
		rows = slices.Concat(rows, bpftraceNameRows(h), perfNameRows(h), gdbNameRows(h), dwarfRows(h))
	}
	return rows
}

// host is where tracers are installed: here, or in the tree of the newest Debian.
type host struct{ newest bool }

// command is the command line that runs a tracer there.
func (h host) command(words ...string) []string {
	if h.newest {
		return append([]string{"chroot", *foreign}, words...)
	}
	return words
}

// need skips the test, or fails it where CI=true, if there is no such tracer.
func (h host) need(t testing.TB, name string) {
	t.Helper()
	if h.newest {
		var err error
		if *foreign == "" {
			err = errors.New("there is none")
		}
		testenv.Needs(t, "a tree of the newest Debian", err)
		return
	}
	testenv.NeedsTool(t, name, name)
}

// run runs a tracer to its end, and returns all that it printed. How it ends is no matter: what it printed is.
func (h host) run(t *testing.T, words ...string) string {
	t.Helper()
	h.need(t, words[0])
	return run(t, h.command(words...)...)
}

func run(t *testing.T, words ...string) string {
	t.Helper()
	// Not the test's context, which is over when the test cleans up.
	ctx, cancel := context.WithTimeout(context.Background(), patience())
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	// What it started goes with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = testenv.Patience
	err := cmd.Run()
	text := out.String()
	t.Logf("$ %s\n%s%v", strings.Join(words, " "), text, err)
	require.NoError(t, ctx.Err(), "it did not end")
	return text
}

// refuses is a proof: the tracer says so.
func (h host) refuses(says string, words func(s *subject) []string) func(*testing.T, *subject) {
	return func(t *testing.T, s *subject) {
		t.Helper()
		require.Regexp(t, regexp.MustCompile(says), h.run(t, words(s)...), "it works, or fails for another reason")
	}
}

var number = regexp.MustCompile(`\d+(\.\d+)+`)

// versionOf returns what asks a tracer for its version, once.
func (h host) versionOf(words ...string) func() string {
	return sync.OnceValue(func() string {
		all := h.command(words...)
		cmd := exec.Command(all[0], all[1:]...)
		// Some end with a status that is not 0.
		out, _ := cmd.CombinedOutput()
		return string(number.Find(out))
	})
}

// headers reports whether there are headers of the running kernel here, which several tracers compile against.
func headers() bool {
	var uts unix.Utsname
	if unix.Uname(&uts) != nil {
		return false
	}
	_, err := os.Stat("/lib/modules/" + unix.ByteSliceToString(uts.Release[:]) + "/build")
	return err == nil
}
