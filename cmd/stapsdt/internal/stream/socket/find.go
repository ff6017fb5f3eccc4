//go:build linux

// Package socket finds the processes that listen (see package probesock), and connects to them. Any
// of them may be hostile: their messages are checked, and none delays another.
package socket

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
	processes "github.com/go-stapsdt/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

var (
	// ErrNone means that a process does not listen.
	ErrNone = errors.New("the process does not listen: start it with STAPSDT_SOCKET=1, which probeenv.Load and the C library obey, or let it call probesock.Listen")
	// ErrUser means that a process admits only its own user and root. It is an fs.ErrPermission
	// too.
	ErrUser error = missingRight("its socket admits only its own user and root")
	// ErrStale means that no process listens on the socket that was found.
	ErrStale = errors.New("no process listens on its socket any longer")
	// ErrDeleted means that the file of its socket was deleted, without which no process can
	// connect.
	ErrDeleted = errors.New("the file of its socket was deleted")
	// ErrRefused means that its socket cannot be reached.
	ErrRefused = errors.New("its socket cannot be reached")
	// ErrClock means that the times of a process's events cannot be compared with those of others.
	ErrClock = errors.New("it has a time namespace with another CLOCK_MONOTONIC, so that only the kernel can trace it")
)

type missingRight string

func (e missingRight) Error() string        { return string(e) }
func (e missingRight) Is(target error) bool { return target == fs.ErrPermission }

// place is a path on which a process may listen.
type place struct {
	root string // /proc/PID/root, or ""
	path string // relative to root
}

// Started returns the start time of a process in ticks since the boot, or 0 if there is no such
// process.
func Started(pid int) uint64 {
	start, _ := proc.StartTicks(pid)
	return start
}

// readProcess reads the description of a process from /proc, without its places.
func readProcess(pid int) (*Process, error) {
	p := &Process{PID: pid, own: pid}
	status, err := proc.ReadStatus(pid)
	if err != nil {
		return nil, proc.ErrNoProcess
	}
	uid, _ := strconv.ParseUint(status.Word("Uid", 1), 10, 32)
	p.UID = uint32(uid)
	if own, err := strconv.Atoi(status.Word("NSpid", -1)); err == nil {
		p.own = own
	}
	if p.Start, err = proc.StartTicks(pid); err != nil {
		return nil, proc.ErrNoProcess
	}
	p.seen = processes.StartSeen(strconv.Itoa(pid), p.Start)
	return p, nil
}

// stallKey returns the key, for package stall, of a file system to which a process has led.
func stallKey(pid int, system any) any {
	return stall.Of{Owner: proc.OwnerOf(pid), System: [2]any{pid, system}}
}

// names matches the names of sockets: the PID in the program's namespace, its start time, and a
// number if processes of several PID namespaces have the same PID and start time.
var names = lazyregexp.New(`^((\d{1,10})-(\d{1,20}))(?:-\d)?\.sock$`)

// listens is the flag of listening sockets in /proc/net/unix.
const listens = 0x10000

const (
	// maxSockets is the maximum number of lines of /proc/net/unix that are read.
	maxSockets = 1 << 20
	// maxPaths is the maximum number of sockets of one name that are examined. Any process of the
	// network namespace may give its own sockets the name of another process's socket.
	maxPaths = 64
)

// listening returns the paths of the listening sockets in the network namespace of a process, by
// the PID and the start time in their names.
func listening(pid int) map[string][]string {
	all := map[string][]string{}
	f, err := os.Open(fmt.Sprintf("/proc/%d/net/unix", proc.Task(pid)))
	if err != nil {
		return all
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for n := 0; in.Scan() && n < maxSockets; n++ {
		fields := strings.SplitN(in.Text(), " ", 8)
		if len(fields) < 8 {
			continue
		}
		flags, err := strconv.ParseUint(fields[3], 16, 32)
		at := strings.TrimLeft(fields[7], " 0123456789") // the inode is padded
		if err != nil || flags&listens == 0 || !strings.HasPrefix(at, "/") {
			continue
		}
		if match := names().FindStringSubmatch(path.Base(at)); match != nil {
			all[match[1]] = append(all[match[1]], at)
		}
	}
	return all
}

// find finds the places where the process may listen: the sockets listed in its network namespace
// or, if none is listed, as in gVisor, or not by its path, the sockets in its directories. The
// error is stall.Err if these do not answer.
func (p *Process) find(sockets map[string][]string) (err error) {
	paths := sockets[p.name()]
	if len(paths) == 0 && len(sockets) > 0 {
		return nil
	}
	root := fmt.Sprintf("/proc/%d/root", proc.Task(p.PID))
	// most belong to other processes; the process's own socket is in one of its directories
	if len(paths) > maxPaths {
		usual, _ := stall.Do(
			stallKey(p.PID, root), func() ([]string, error) { return p.directories(), nil }, nil,
		)
		paths = slices.Clone(paths)
		slices.SortStableFunc(paths, func(a, b string) int {
			return slices.Index(usual, path.Dir(b)) - slices.Index(usual, path.Dir(a))
		})
		paths = paths[:maxPaths]
	}
	long := false
	for _, at := range paths {
		// bound through a descriptor of the directory, as the path is too long for an address
		if strings.HasPrefix(at, "/proc/") {
			long = true
			continue
		}
		p.places = append(p.places, place{root, at})
	}
	if len(p.places) == 0 && (long || len(sockets) == 0) {
		// The process's memory and directories can be on a file system that does not answer.
		look := func() ([]place, error) { return p.inDirectories(root), nil }
		p.places, err = stall.Do(stallKey(p.PID, root), look, nil)
	}
	return err
}

// name returns the name of its socket, without a number and the extension.
func (p *Process) name() string { return fmt.Sprintf("%d-%d", p.own, p.seen) }

// directories returns the directories in which the process and this command would listen.
func (p *Process) directories() []string {
	return append(directories(p.UID, proc.Environment(p.PID)), directories(p.UID, os.Getenv)...)
}

// inDirectories returns the sockets of the process in its directories.
func (p *Process) inDirectories(root string) (all []place) {
	for _, dir := range p.directories() {
		for n := range wire.MaxNamesakes {
			at := place{root, path.Join(dir, wire.SocketName(uint32(p.own), p.seen, n+1))}
			if info, err := os.Lstat(root + at.path); err == nil &&
				info.Mode().Type() == os.ModeSocket &&
				!slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	return all
}

// directories returns the directories in which a program with this user and environment may listen.
func directories(uid uint32, variable func(string) string) (all []string) {
	if dir := variable("STAPSDT_DIR"); dir != "" {
		all = append(all, dir)
	}
	if dir := variable("XDG_RUNTIME_DIR"); dir != "" {
		all = append(all, path.Join(dir, "stapsdt"))
	}
	temporary := fmt.Sprintf("stapsdt-%d", uid)
	if dir := variable("TMPDIR"); dir != "" {
		all = append(all, path.Join(dir, temporary))
	}
	all = append(all, path.Join("/tmp", temporary))
	return slices.DeleteFunc(all, func(dir string) bool { return !path.IsAbs(dir) })
}

// Processes returns the listening processes to which this user may connect, including processes
// that are Elsewhere and have sockets in a directory of this user.
func Processes() []*Process { return new(Newcomers).Processes() }

// entry is a process as it was when it was last read.
type entry struct {
	// directory is /proc/PID: that of another process with the PID has another inode.
	directory os.FileInfo
	read      time.Time
	process   *Process // without its places, or nil if this user may not connect to it
	namespace string   // of its network
	// found is the process with its places when it had sockets with these paths, or nil.
	found *Process
	paths []string
}

// longest returns the time after which the process is read again, because it may have another user
// or network namespace. The socket of a process that was found stays where it is.
func (e *entry) longest() time.Duration {
	if e.found != nil && len(e.found.places) > 0 {
		return longestFound
	}
	return longestUnseen
}

// entries returns the processes of users to which this user may connect. It reads those again that
// it did not know, or has not read for long: few of them change their user or network namespace.
func (n *Newcomers) entries() map[int]*entry {
	pids, err := proc.Processes()
	if err != nil {
		return nil
	}
	own, now := uint32(os.Geteuid()), time.Now()
	all := make(map[int]*entry, len(pids))
	for _, pid := range pids {
		directory, err := os.Lstat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			continue
		}
		e := n.known[pid]
		if e == nil || now.Sub(e.read) >= e.longest() || !same(e.directory, directory) {
			e = &entry{directory: directory, read: now}
			if e.process, err = readProcess(pid); err != nil {
				continue
			}
			e.namespace = network(pid)
		}
		if all[pid] = e; e.process != nil && e.process.UID != own && own != 0 {
			e.process = nil
		}
	}
	return all
}

// network returns the network namespace of a process. If it cannot be read, the process has one of
// its own: it may be in another user namespace, and its socket may still be in reach, or is
// reported.
func network(pid int) string {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return fmt.Sprint(pid)
	}
	return namespace
}

// same reports whether two directories in /proc are of one process, with the same user.
func same(a, b os.FileInfo) bool {
	before, _ := a.Sys().(*syscall.Stat_t)
	now, _ := b.Sys().(*syscall.Stat_t)
	return before != nil && now != nil && before.Ino == now.Ino && before.Uid == now.Uid
}

// Processes returns what the function Processes returns. It remembers the processes.
func (n *Newcomers) Processes() []*Process {
	n.known = n.entries()
	own := uint32(os.Geteuid())
	byNamespace := map[string]map[string][]string{}
	seen := map[string]bool{}
	var all []*Process
	for _, pid := range slices.Sorted(maps.Keys(n.known)) {
		e := n.known[pid]
		if e.process == nil {
			continue
		}
		sockets := byNamespace[e.namespace]
		if sockets == nil {
			// The process may have entered another namespace, whose sockets must not stand for
			// those of its former neighbors.
			if e.namespace = network(pid); byNamespace[e.namespace] != nil {
				sockets = byNamespace[e.namespace]
			} else {
				sockets = listening(pid)
			}
			byNamespace[e.namespace] = sockets
		}
		paths := sockets[e.process.name()]
		p := e.found
		if p == nil || len(p.places) == 0 || len(paths) == 0 || !slices.Equal(paths, e.paths) {
			found := *e.process
			_ = found.find(sockets)
			p, e.found, e.paths = &found, &found, paths
		}
		if len(p.places) > 0 {
			for _, at := range p.places {
				name := path.Base(at.path)
				// only one of several places is the process's own
				seen[name] = seen[name] || len(p.places) == 1
			}
			all = append(all, p)
		}
	}
	for _, dir := range directories(own, os.Getenv) {
		entries, _ := stall.Do(dir, func() ([]os.DirEntry, error) { return os.ReadDir(dir) }, nil)
		for _, e := range entries {
			match, at := names().FindStringSubmatch(e.Name()), path.Join(dir, e.Name())
			if match == nil || e.Type() != os.ModeSocket || seen[e.Name()] {
				continue
			}
			seen[e.Name()] = true
			pid, _ := strconv.Atoi(match[2])
			start, _ := strconv.ParseUint(match[3], 10, 64)
			all = append(all, &Process{
				PID: pid, UID: own, Start: start, Elsewhere: true, places: []place{{path: at}},
			})
		}
	}
	return all
}

// Find returns a process that listens.
func Find(pid int) (*Process, error) {
	p, err := readProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	if err = p.find(listening(pid)); len(p.places) == 0 {
		return nil, fmt.Errorf("process %d: %w", pid, cmp.Or(err, ErrNone))
	}
	if own := uint32(os.Geteuid()); own != p.UID && own != 0 {
		return nil, fmt.Errorf("process %d: %w: it belongs to user %d", pid, ErrUser, p.UID)
	}
	return p, nil
}

const (
	// longestUnseen is the maximum time until a process that listens in another, existing network
	// namespace is found.
	longestUnseen = 10 * time.Second
	// longestFound is the time after which a process whose socket was found is read again.
	longestFound = time.Minute
)

// Newcomers decides when to look for processes again, which is expensive if there are many. The
// zero value is ready to use.
type Newcomers struct {
	thread, sockets string
	looked          time.Time
	known           map[int]*entry // by PID
}

// Possible reports whether processes may have begun to listen since it last reported true: threads
// were started, the network namespaces of the processes have other sockets, or longestUnseen has
// passed.
func (n *Newcomers) Possible(pids ...int) bool {
	if thread := lastThread(); thread != n.thread {
		n.thread, n.sockets, n.looked = thread, "", time.Now()
		return true
	}
	state := ""
	for _, pid := range pids {
		sockets := slices.Sorted(maps.Keys(listening(pid)))
		if len(sockets) == 0 {
			return true // no socket is listed in gVisor
		}
		state += "\n" + strings.Join(sockets, " ")
	}
	if state == n.sockets && time.Since(n.looked) < longestUnseen {
		return false
	}
	n.sockets, n.looked = state, time.Now()
	return true
}

// lastThread returns the content of /proc/loadavg. Its last field is the newest thread ID in this
// PID namespace.
func lastThread() string {
	b, _ := os.ReadFile("/proc/loadavg")
	return string(b[bytes.LastIndexByte(b, ' ')+1:])
}
