//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// processes are those that -p named, and what they fork.
type processes struct {
	pids *ebpf.Map // the set of their numbers, and of those of new threads
	prog *ebpf.Program
	link link.Link
	// Without a link, forks are not followed by the
	// kernel, and children are looked for in /proc.
	poll bool
}

// maxProcesses is the size of the set.
const maxProcesses = 16384

// follow makes the set of processes, to which the kernel adds what they fork.
func follow(pids []int, ns *program.Namespace) (p *processes, err error) {
	p = &processes{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	p.pids, err = ebpf.NewMap(&ebpf.MapSpec{Name: "processes", Type: ebpf.Hash, KeySize: 4, ValueSize: 1, MaxEntries: maxProcesses})
	if err != nil {
		return p, mapError(err)
	}
	for _, pid := range pids {
		if err := p.pids.Put(uint32(pid), uint8(1)); err != nil {
			return p, err
		}
	}
	// The tracepoint has the number of the child in the initial PID namespace.
	if ns == nil {
		p.prog, p.link, err = program.FollowForks(p.pids)
	}
	if ns != nil || err != nil {
		p.poll = true
	}
	return p, nil
}

// list returns the processes that are known.
func (p *processes) list() (pids []int) {
	var pid uint32
	var value uint8
	for entries := p.pids.Iterate(); entries.Next(&pid, &value); {
		if isProcess(int(pid)) {
			pids = append(pids, int(pid))
		}
	}
	return pids
}

// has reports whether a process is in the set.
func (p *processes) has(pid int) bool {
	var value uint8
	return p.pids.Lookup(uint32(pid), &value) == nil
}

// isProcess reports whether a number is that of a process, and not of another thread.
func isProcess(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(status, []byte("\nTgid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(bytes.TrimSpace(line)) == strconv.Itoa(pid)
}

// purge removes what has exited and numbers of threads, and reports whether a process is
// left.
func (p *processes) purge() (left bool) {
	if p.poll {
		p.addChildren()
	}
	var pid uint32
	var value uint8
	var gone []uint32
	for entries := p.pids.Iterate(); entries.Next(&pid, &value); {
		if isProcess(int(pid)) && target.Alive(int(pid)) {
			left = true
		} else {
			gone = append(gone, pid)
		}
	}
	for _, pid := range gone {
		_ = p.pids.Delete(pid)
	}
	return left
}

// addChildren adds the processes whose parent is in the set.
func (p *processes) addChildren() {
	known := map[int]bool{}
	for _, pid := range p.list() {
		known[pid] = true
	}
	all, _ := target.Processes()
	for _, pid := range all { // children often have higher numbers than their parents
		if !known[pid] && known[target.Parent(pid)] && p.pids.Put(uint32(pid), uint8(1)) == nil {
			known[pid] = true
		}
	}
}

func (p *processes) close() {
	if p.link != nil {
		p.link.Close()
	}
	p.prog.Close()
	p.pids.Close()
}
