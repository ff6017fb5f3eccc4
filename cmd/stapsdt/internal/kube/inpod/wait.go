//go:build linux

package inpod

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"golang.org/x/sys/unix"
)

// waiting is a part of the command line of the waiting process.
const waiting = "\x00" + Verb + "\x00wait\x00"

// used is the signal that a request sends to the waiting process. By default, it does nothing.
const used = unix.SIGWINCH

// Wait waits until ctx is done, or until no request has come for the time idle and no other process
// runs in this container. It is the first process of the ephemeral container in which the commands
// run.
func Wait(ctx context.Context, to *console.Console, a Allowance, idle time.Duration) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, used)
	defer signal.Stop(signals)
	if err := ProtectPod(to, a); err != nil {
		return err
	}
	debug.FreeOSMemory()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
		case <-time.After(idle):
			if len(signals) == 0 && len(neighbors()) == 0 {
				return nil
			}
		}
	}
}

// Use tells the waiting process of this container that a request has come.
func Use() {
	for _, pid := range neighbors() {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil &&
			bytes.Contains(line, []byte(waiting)) {
			_ = unix.Kill(pid, used)
		}
	}
}

// neighbors returns the other processes of this container. They have the same mount namespace,
// because each container has its own.
func neighbors() (all []int) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil
	}
	pids, _ := proc.Processes()
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		if its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err == nil && its == own {
			all = append(all, pid)
		}
	}
	return all
}
