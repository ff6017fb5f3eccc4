//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// lttngSubject is the name of the C program with tracepoints of LTTng-UST.
const lttngSubject = "lttng"

// lttng is a session of LTTng that is tracing: its daemon copies the events to files.
type lttng struct {
	daemon *exec.Cmd
	name   string
	output string // a directory
}

// startLTTng starts the daemon, unless one runs, and a session. The channel's buffers have 32 MB for each processor, as
// much as a watcher's.
func startLTTng() (l *lttng, err error) {
	l = &lttng{name: fmt.Sprintf("stapsdt-bench-%d", os.Getpid()), output: filepath.Join(*images, "lttng")}
	if lttngCommand("list") != nil {
		l.daemon = exec.Command("lttng-sessiond", "--no-kernel")
		l.daemon.Stderr = os.Stderr
		if err := l.daemon.Start(); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{
		{"create", l.name, "--output=" + l.output},
		{"enable-channel", "-s", l.name, "-u", "--subbuf-size=4M", "--num-subbuf=8", "events"},
		{"enable-event", "-s", l.name, "-u", "-c", "events", "stapsdt_bench:*"},
		{"start", l.name},
	} {
		if err := lttngCommand(args...); err != nil {
			l.kill()
			return nil, err
		}
	}
	return l, nil
}

// lttngCommand runs the command, which waits for a daemon that has just been started.
func lttngCommand(args ...string) (err error) {
	for range 50 {
		var out []byte
		if out, err = exec.Command("lttng", append([]string{"--no-sessiond"}, args...)...).CombinedOutput(); err == nil {
			if strings.Contains(string(out), "discarded") {
				progress(string(out))
			}
			return nil
		}
		err = fmt.Errorf("lttng %s: %w\n%s", strings.Join(args, " "), err, out)
		if args[0] != "create" {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// stop ends the session. It fails when the files cannot have the events that were fired: some of LTTng's take
// as little as eight bytes.
func (l *lttng) stop(fired int) error {
	defer l.kill()
	if err := errors.Join(lttngCommand("stop", l.name), lttngCommand("destroy", l.name)); err != nil {
		return err
	}
	size := int64(0)
	err := filepath.WalkDir(l.output, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	if err == nil && size < 8*int64(fired) {
		err = fmt.Errorf("LTTng has written %d bytes of %d events", size, fired)
	}
	return err
}

func (l *lttng) kill() {
	if l.daemon != nil {
		_ = l.daemon.Process.Signal(os.Interrupt)
		_ = l.daemon.Wait()
	}
}
