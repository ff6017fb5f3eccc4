//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/probesock"
)

// commandVar names the variable with the command that watches the provider outside.
const commandVar = "STAPSDT_BENCH_COMMAND"

// outside is a provider whose events another process sees, by the socket.
var outside = newInside("outside")

// watcher is that process, from the first row that needs it.
var watcher struct {
	cmd    *exec.Cmd
	out    bytes.Buffer
	socket io.Closer
	fired  atomic.Uint64
}

// drained is how long the watcher may take to read what was fired.
const drained = 150 * time.Millisecond

var startWatcher = sync.OnceFunc(func() {
	check(outside.provider.Load())
	var err error
	watcher.socket, err = probesock.Listen()
	check(err)
	watcher.cmd = exec.Command(os.Getenv(commandVar), "count", "-o", "json", "--via", "socket", "-p", strconv.Itoa(os.Getpid()), "outside:*")
	watcher.cmd.Stdout, watcher.cmd.Stderr = &watcher.out, os.Stderr
	check(watcher.cmd.Start())
	for !outside.two.Enabled() || !outside.text.Enabled() {
		runtime.Gosched()
	}
})

// seenOutside makes a row of events that another process sees, fired by one thread or by several at once.
func seenOutside(threads int, fire func(n int)) func(n int) int64 {
	once := timed(fire)
	return func(n int) int64 {
		startWatcher()
		// What was fired before is read: the figures are those of events that reach the other process.
		time.Sleep(drained)
		watcher.fired.Add(uint64(threads * n))
		if threads == 1 {
			return once(n)
		}
		return together(threads, n, fire)
	}
}

// stopWatcher ends the watcher, which must have counted every event, or said that it was lost.
func stopWatcher() {
	if watcher.cmd == nil {
		return
	}
	check(watcher.cmd.Process.Signal(os.Interrupt))
	check(watcher.cmd.Wait())
	var counted, lost uint64
	for lines := json.NewDecoder(&watcher.out); ; {
		var row struct{ Count, Lost uint64 }
		if err := lines.Decode(&row); err == io.EOF {
			break
		} else {
			check(err)
		}
		counted, lost = counted+row.Count, lost+row.Lost
	}
	if fired := watcher.fired.Load(); counted+lost != fired {
		check(fmt.Errorf("%d events were fired, of which the watcher has counted %d and lost %d", fired, counted, lost))
	}
	if lost > 0 {
		fmt.Fprintf(os.Stderr, "the watcher has lost %d of %d events\n", lost, counted+lost)
	}
	check(watcher.socket.Close())
	check(outside.provider.Close())
}
