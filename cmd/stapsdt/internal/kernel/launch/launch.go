//go:build linux

// Package launch starts a command that is traced from its first instruction on.
package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"

	"golang.org/x/sys/unix"
)

// The statuses of a command that could not be started, as in env(1).
const (
	statusRefused = 126
	statusMissing = 127
)

// signalBase is added to the number of the signal that has ended a command, as shells do.
const signalBase = 128

// Error is a command that could not be started.
type Error struct {
	Name string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s cannot be started: %v", e.Name, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Status returns the exit status that a shell would return.
func (e *Error) Status() int {
	if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist) {
		return statusMissing
	}
	return statusRefused
}

// Command is a command that was started. Its program is loaded, and none of it runs before Release.
type Command struct {
	*os.Process
	*socket
	release  chan struct{} // closed by Release
	released chan error    // has the result of Release
	running  bool
	signals  chan os.Signal
	quits    chan os.Signal // receives SIGQUIT, which is for the command alone
}

// shell runs files that the kernel cannot.
const shell = "/bin/sh"

// isText reports whether the first line of a file has no NUL. Shells take other files for damaged
// programs.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var b [80]byte
	n, _ := f.Read(b[:])
	line, _, _ := bytes.Cut(b[:n], []byte("\n"))
	return !bytes.Contains(line, []byte{0})
}

// Start starts a command with the standard files of this process, and holds it. Programs that load
// probes of providers that specs select wait until proceed of Loaded is called, unless unheard is
// not nil: then there is no socket by which to report a load.
func Start(argv, specs []string) (c *Command, unheard, err error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, nil, &Error{argv[0], errors.Unwrap(err)}
	}
	c = &Command{
		release: make(chan struct{}), released: make(chan error, 1),
		signals: make(chan os.Signal, 1), quits: make(chan os.Signal, 1),
	}
	c.socket, unheard = listen(specs)
	started := make(chan error)
	go c.hold(path, argv, started)
	if err := <-started; err != nil {
		c.Leave()
		return nil, nil, &Error{argv[0], err}
	}
	signal.Notify(c.signals, unix.SIGTERM)
	if !signal.Ignored(unix.SIGHUP) {
		signal.Notify(c.signals, unix.SIGHUP)
	}
	signal.Notify(c.quits, unix.SIGQUIT)
	go c.forward()
	return c, unheard, nil
}

// hold starts the command, and lets it run after Release. A new program stops after execve, because
// it asks to be traced by ptrace(2). All requests must come from one thread.
func (c *Command) hold(path string, argv []string, started chan<- error) {
	runtime.LockOSThread() // and the thread ends with the goroutine
	start := func(path string, argv []string) (*os.Process, error) {
		return os.StartProcess(path, argv, &os.ProcAttr{
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Env: c.environment(),
			Sys: &syscall.SysProcAttr{Ptrace: true},
		})
	}
	var err error
	c.Process, err = start(path, argv)
	if errors.Is(err, unix.ENOEXEC) && isText(path) { // a script without #!, as execvp(3) starts it
		c.Process, err = start(shell, append([]string{shell, path}, argv[1:]...))
	}
	if err != nil {
		var op *fs.PathError
		if errors.As(err, &op) {
			err = op.Err
		}
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: perhaps ptrace is forbidden, which holds it until it is attached to", err)
		}
		started <- err
		return
	}
	var status unix.WaitStatus
	if _, err = unix.Wait4(c.Pid, &status, 0, nil); err == nil && !status.Stopped() {
		err = errors.New("it has ended before its first instruction")
	}
	if err == nil {
		err = unix.PtraceSetOptions(c.Pid, unix.PTRACE_O_EXITKILL)
	}
	if started <- err; err != nil {
		_ = c.Process.Kill()
		return
	}
	<-c.release
	c.released <- unix.PtraceDetach(c.Pid)
}

// Release lets the command run.
func (c *Command) Release() error {
	c.running = true
	close(c.release)
	return <-c.released
}

// Ended reports whether the command has ended. It may still have to be waited for.
func (c *Command) Ended() bool { return !proc.Alive(c.Pid) }

// forward passes on the signals that a terminal does not send to the command.
func (c *Command) forward() {
	for s := range c.signals {
		_ = c.Signal(s) // the command may have ended
	}
}

// End waits for the end of the command, and returns its status as a shell does. It kills a command
// that was not released, and returns 0.
func (c *Command) End() (status int, err error) {
	defer func() {
		signal.Stop(c.signals)
		signal.Stop(c.quits)
		close(c.signals)
	}()
	c.Leave()
	if !c.running {
		_ = c.Kill()
	}
	state, err := c.Wait()
	if err != nil || !c.running {
		return 0, err
	}
	ended := state.Sys().(syscall.WaitStatus)
	if ended.Signaled() {
		return signalBase + int(ended.Signal()), nil
	}
	return ended.ExitStatus(), nil
}
