//go:build unix

package kube

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
)

// The roles of this program in a pod of the fake, where streams can be resumed.
const (
	asked   = "asked"   // a request that sends its recording
	resumer = "resumer" // the command that resumes it
)

// roles are what this program does in a pod.
var roles = map[string]func(args []string) int{}

// awaitReader waits until the plugin has read what was written to it.
var awaitReader = func() {}

// relayFrame relays a frame, and waits until the plugin has read it.
func relayFrame(out io.Reader) (ok bool) {
	_, err := mirror.Read(io.TeeReader(out, os.Stdout))
	awaitReader()
	return err == nil
}

// relay runs a command in a pod as kubectl exec does, until the server is down. The command may go on.
func (f *fake) relay(role, pod string, args []string) int {
	self, err := os.Executable()
	if err != nil {
		return f.fail(err.Error())
	}
	c := exec.Command(self, args...)
	c.Args[0] = role
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, inErr := c.StdinPipe()
	out, outErr := c.StdoutPipe()
	problems, err := c.StderrPipe()
	if inErr != nil || outErr != nil || err != nil {
		return f.fail("no pipes")
	}
	if err := c.Start(); err != nil {
		return f.fail(err.Error())
	}
	go func() {
		_, _ = io.Copy(in, os.Stdin)
		in.Close()
	}()
	ended := make(chan struct{})
	go func() {
		said := make(chan struct{})
		go func() { _, _ = io.Copy(os.Stderr, problems); close(said) }()
		// The plugin reads on when it has taken the frame before.
		if relayFrame(out) && relayFrame(out) {
			f.log("relayed " + pod)
		}
		_, _ = io.Copy(os.Stdout, readerFunc(func(b []byte) (int, error) {
			if f.Hung && role == asked {
				f.log("hung " + pod)
				select {}
			}
			return out.Read(b)
		}))
		<-said
		_ = c.Wait()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			if status := c.ProcessState.ExitCode(); status != 0 {
				return f.fail("command terminated with exit code 1")
			}
			return 0
		case <-time.After(5 * time.Millisecond):
			if f.now().Down { // the pipes end with this process
				f.log("broken " + pod)
				return f.fail("error: error reading from error stream: unexpected EOF")
			}
			if !f.exists(pod) {
				_ = c.Process.Kill()
				fmt.Fprintln(os.Stderr, "command terminated with exit code 137")
				return 137
			}
		}
	}
}

// endWithTest lets this process end with its test, which holds a lock: the kernel releases it however the test ends.
func endWithTest(directory string) {
	lock, err := os.Open(filepath.Join(directory, "test"))
	if err != nil {
		os.Exit(99)
	}
	go func() {
		for errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_SH), syscall.EINTR) {
		}
		os.Exit(99)
	}()
}

// sendNothing sends frames without events.
func (f *fake) sendNothing() int {
	for frame := mirror.NewPosition(1).Frame(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stdout.Write(frame); err != nil {
			return f.fail(err.Error())
		}
	}
}

// now returns the cluster as it is now.
func (f *fake) now() *cluster {
	now := &fake{directory: f.directory}
	_ = now.read()
	return &now.cluster
}

// readerFunc is a function as an io.Reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
