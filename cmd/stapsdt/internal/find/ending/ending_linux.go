package ending

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
	"github.com/go-stapsdt/stapsdt/internal/proc"

	"golang.org/x/sys/unix"
)

// skew exceeds the difference of the times that a recording and the system have of an instant.
const skew = 100 * time.Millisecond

// patience is the time that all programs that are asked may take together.
const patience = 5 * time.Second

// Of returns what this machine tells about the end of a process, which systemd has started for a
// unit, or for an unknown one if unit is "".
func Of(ctx context.Context, l *Life, unit string) (all []Ending) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var written last
	if l.Here { // otherwise another process can have had this PID
		written = journalOf(ctx, l)
	}
	own, isStopPost := ofEnvironment(os.Getenv)
	switch {
	case isStopPost:
		unit = own.unit
	case unit == "":
		unit = written.unit
	}
	var e *Ending
	if unit != "" && l.Here {
		if e = ofUnit(ctx, l, unit); e == nil && !isStopPost {
			e = ofManager(ctx, l, unit)
		}
	}
	if e == nil && isStopPost {
		its := own.ending(Systemd)
		e = &its
	}
	if e != nil {
		all = append(all, *e)
	}
	if l.Here {
		if e := ofKernel(ctx, l); e != nil {
			all = append(all, *e)
		}
	}
	return append(all, written.endings...)
}

// maxOutput is the number of bytes that are read of what a program prints.
const maxOutput = 4 << 20

// run runs a program, and returns what it has printed, or nothing. Tests replace it.
var run = func(ctx context.Context, name string, args ...string) []byte {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0")
	var out limited
	c.Stdout = &out
	if c.Run() != nil && len(out) == 0 {
		return nil
	}
	return out
}

// limited keeps the first maxOutput bytes.
type limited []byte

func (l *limited) Write(b []byte) (int, error) {
	*l = append(*l, b[:min(len(b), maxOutput-len(*l))]...)
	return len(b), nil
}

// unitName matches the name of a unit, which cannot be a flag.
var unitName = lazyregexp.New(`^[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]*\.[a-z]+$`)

// IsUnit reports whether a word is the name of a unit, with its type.
func IsUnit(word string) bool { return unitName().MatchString(word) }

// Show returns properties of a unit by their names, or nil if there is no such unit.
func Show(ctx context.Context, unit string, names ...string) map[string]string {
	if !IsUnit(unit) {
		return nil
	}
	out := run(ctx, "systemctl", "show", "--no-pager",
		"--property=LoadState,"+strings.Join(names, ","), "--", unit)
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			all[name] = value
		}
	}
	if all["LoadState"] != "loaded" {
		return nil
	}
	return all
}

// ofEnvironment returns the end of the service of which this process is an ExecStopPost, by the
// variables that systemd sets.
func ofEnvironment(variable func(string) string) (s service, ok bool) {
	s = service{
		result: variable("SERVICE_RESULT"), code: variable("EXIT_CODE"),
		status: variable("EXIT_STATUS"),
	}
	if s.result == "" || variable("INVOCATION_ID") == "" {
		return s, false
	}
	s.unit = UnitOf(os.Getpid())
	return s, true
}

// Stopping returns the unit of which this process is an ExecStopPost, or "".
func Stopping() string {
	s, _ := ofEnvironment(os.Getenv)
	return s.unit
}

// UnitOf returns the service of a process by its control group, or "".
func UnitOf(pid int) string {
	groups := proc.Read(fmt.Sprintf("/proc/%d/cgroup", pid), 64<<10)
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "name=systemd" {
			continue
		}
		for name := range strings.SplitSeq(parts[2], "/") {
			if IsUnit(name) && strings.HasSuffix(name, ".service") {
				return name
			}
		}
	}
	return ""
}

// codes are the words for the numbers of ExecMainCode, which are those of siginfo_t.
var codes = map[string]string{"1": "exited", "2": "killed", "3": "dumped"}

// ofUnit returns the end of the process that a unit has run last, if it is this one.
func ofUnit(ctx context.Context, l *Life, unit string) *Ending {
	p := Show(ctx, unit, "Result", "ExecMainPID", "ExecMainCode", "ExecMainStatus",
		"ExecMainExitTimestampMonotonic")
	ended, _ := strconv.ParseInt(p["ExecMainExitTimestampMonotonic"], 10, 64)
	if p["ExecMainPID"] != strconv.Itoa(int(l.PID)) || ended == 0 {
		return nil
	}
	at := time.Unix(0, ended*int64(time.Microsecond)+int64(l.Ahead))
	if at.Before(l.Last.Add(-skew)) {
		return nil // an earlier process has had this PID
	}
	s := service{unit, p["Result"], codes[p["ExecMainCode"]], p["ExecMainStatus"]}
	s.nameSignal()
	e := s.ending(Systemd)
	at = at.UTC()
	e.Time = &at
	return &e
}

// nameSignal replaces the number of a signal by its name without SIG.
func (s *service) nameSignal() {
	if number, err := strconv.Atoi(s.status); err == nil && s.code != "exited" {
		s.status = strings.TrimPrefix(unix.SignalName(unix.Signal(number)), "SIG")
	}
}

// killed matches a message of the kernel's OOM killer.
var killed = lazyregexp.New(`Killed process (\d+) \(([^)]*)\)`)

// nearness is the time after the last event in which the end of a process is looked for that can
// only be told by its name.
const nearness = 10 * time.Second

// oom returns the end that a message of the kernel at a time describes, if the process of this life
// was killed. In a container, it has another PID than for the kernel.
func (l *Life) oom(message string, at time.Time) *Ending {
	found := killed().FindStringSubmatch(message)
	if found == nil || at.Before(l.Last.Add(-skew)) {
		return nil
	}
	name := path.Base(l.Executable)
	e := &Ending{Source: Kernel, Reason: "oom", Text: "the OOM killer killed the process"}
	switch own := strconv.Itoa(int(l.PID)); {
	case found[1] == own:
	case at.After(l.Last.Add(nearness)) || found[2] != name[:min(len(name), 15)]:
		return nil
	default:
		e.Text = "the OOM killer killed a process of this name, with the PID " + found[1]
	}
	at = at.UTC()
	e.Time = &at
	return e
}

// messages is the file with the messages of the kernel. Tests replace it.
var messages = "/dev/kmsg"

// ofKernel returns the end of a process that the OOM killer has killed.
func ofKernel(ctx context.Context, l *Life) *Ending {
	if e := ofMessages(l); e != nil {
		return e
	}
	for _, one := range journal(ctx, l, "_TRANSPORT=kernel") {
		if e := l.oom(one.message(), one.at()); e != nil {
			return e
		}
	}
	return nil
}

// ofMessages looks for the end of a process in the messages of the kernel, which not everybody may
// read.
func ofMessages(l *Life) *Ending {
	f, err := os.OpenFile(messages, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	fd := int(f.Fd()) // the poller of package os would wait for more
	defer f.Close()
	line := make([]byte, 8192)
	for range 1 << 20 {
		n, err := unix.Read(fd, line)
		if err == unix.EPIPE { // the message was overwritten
			continue
		}
		if n <= 0 {
			return nil
		}
		head, message, _ := strings.Cut(string(line[:n]), ";")
		if fields := strings.Split(head, ","); len(fields) > 2 && strings.Contains(message, "Killed") {
			since, _ := strconv.ParseInt(fields[2], 10, 64)
			at := time.Unix(0, since*int64(time.Microsecond)+int64(l.Ahead))
			if e := l.oom(message, at); e != nil {
				return e
			}
		}
	}
	return nil
}
