//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// watcher is a stapsdt that is attached to functions of a process.
type watcher struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

// watch runs a verb of the command on functions of a process, and returns when the kernel has put breakpoints at all
// their sites.
func watch(pid int, args ...string) (*watcher, error) {
	sites, err := sitesOf(pid, args)
	if err != nil {
		return nil, err
	}
	w := &watcher{cmd: exec.Command(filepath.Join(*work, "stapsdt"), append(args, "-o", "json", "-p", strconv.Itoa(pid))...)}
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.err
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		w.kill()
		return nil, err
	}
	defer memory.Close()
	for began := time.Now(); !probed(memory, sites); time.Sleep(time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			w.kill()
			return nil, fmt.Errorf("stapsdt does not attach\n%s", w.err.String())
		}
	}
	return w, nil
}

// sitesOf returns the addresses of the sites of functions that specs among the arguments name, in a program that is not
// a PIE.
func sitesOf(pid int, args []string) (sites []int64, err error) {
	const start = 0x400000
	for _, spec := range args {
		if !strings.HasPrefix(spec, "go:") {
			continue
		}
		name, returns := strings.CutSuffix(spec, ":return")
		out, err := exec.Command(filepath.Join(*work, "stapsdt"), "list", "-o", "json", "-p", strconv.Itoa(pid), name).Output()
		if err != nil {
			return nil, fmt.Errorf("stapsdt list %s: %w", name, err)
		}
		var fn struct {
			Offset  int64
			Returns []int64
		}
		if err := json.Unmarshal(out, &fn); err != nil {
			return nil, err
		}
		if returns || args[0] == "latency" {
			for _, offset := range fn.Returns {
				sites = append(sites, start+offset)
			}
		}
		if !returns {
			sites = append(sites, start+fn.Offset)
		}
	}
	return sites, nil
}

// probed reports whether there are breakpoints at all addresses.
func probed(memory *os.File, sites []int64) bool {
	for _, at := range sites {
		var b [4]byte
		if _, err := memory.ReadAt(b[:], at); err != nil || b[0] != 0xcc && b != [4]byte{0xa0, 0x00, 0x20, 0xd4} {
			return false
		}
	}
	return true
}

// stop ends the command and returns what it has counted, by probe.
func (w *watcher) stop() (map[string]int, error) {
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, err
	}
	if err := w.cmd.Wait(); err != nil {
		return nil, fmt.Errorf("stapsdt: %w\n%s", err, w.err.String())
	}
	counts := map[string]int{}
	for line := range strings.Lines(w.out.String()) {
		var row struct {
			Probe, End string
			Count      int
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		counts[row.Probe+row.End] += row.Count
	}
	return counts, nil
}

// kill makes sure that it has ended.
func (w *watcher) kill() {
	_ = w.cmd.Process.Kill() // it may have ended
	_ = w.cmd.Wait()
}
