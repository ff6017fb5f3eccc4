//go:build linux

package doctor

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

// system is the root directory of a system, or a recorded copy of one.
type system struct{ fs.FS }

// text returns the content of a file without the spaces around it, and "" if it cannot be
// read.
func (s system) text(path string) string {
	content, _ := fs.ReadFile(s.FS, path)
	return strings.TrimSpace(string(content))
}

// link returns the target of a link, and "" if it cannot be read.
func (s system) link(path string) string {
	to, _ := fs.ReadLink(s.FS, path)
	return to
}

func (s system) has(path string) bool {
	_, err := fs.Stat(s.FS, path)
	return err == nil
}

// host reads the facts about the kernel, except for its release and machine.
func (s system) host() (h Host) {
	// "none [integrity] confidentiality"
	_, mode, _ := strings.Cut(s.text("sys/kernel/security/lockdown"), "[")
	h.Lockdown, _, _ = strings.Cut(mode, "]")
	const devices = "sys/bus/event_source/devices"
	switch {
	case s.has(devices + "/uprobe"):
		h.Uprobes = UprobesThere
	case s.has(devices):
		h.Uprobes = UprobesMissing
	}
	return h
}

// The initial namespaces, whose numbers are part of the kernel's interface.
const (
	initialPID  = "pid:[4026531836]"
	initialUser = "user:[4026531837]"
)

// self reads the facts about this process. pid is its PID in its own PID namespace.
func (s system) self(pid int) Self {
	status := s.status("thread-self")
	user := s.link("proc/self/ns/user")
	return Self{
		UID:             effective(status["Uid"]),
		Seccomp:         status["Seccomp"] == "2", // a filter
		InPIDNamespace:  s.link("proc/self/ns/pid") != initialPID,
		InUserNamespace: user != "" && user != initialUser,
		NoProc:          !s.has("proc/version"),
		OwnProc:         s.link("proc/self") == strconv.Itoa(pid),
	}
}

func (s system) process(pid int) Process {
	number := strconv.Itoa(pid)
	status := s.status(number)
	state := status["State"] // "S (sleeping)"
	p := Process{
		Name: status["Name"], UID: effective(status["Uid"]),
		Alive:   state != "" && !strings.ContainsAny(state[:1], "ZX"), // a zombie has exited
		Stopped: state != "" && strings.ContainsAny(state[:1], "Tt"),
	}
	for variable := range strings.SplitSeq(s.text("proc/"+number+"/environ"), "\x00") {
		// the first counts
		if value, ok := strings.CutPrefix(variable, "STAPSDT_DIR="); ok && p.Directory == "" {
			p.Directory = value
		}
		if err := p.obey(variable); err != nil {
			p.Invalid = append(p.Invalid, err)
		}
	}
	return p
}

// obey notes the request of a variable, and returns an error if the library refuses its
// value.
func (p *Process) obey(variable string) error {
	name, value, _ := strings.Cut(variable, "=")
	switch {
	case name == wire.Variable:
		asked, err := wire.ParseVariable(value)
		p.Asked = p.Asked || asked
		return err
	case name == recording.Variable && value != "":
		_, _, err := recording.ParseVariable(value)
		return err
	}
	return nil
}

// status returns the lines of /proc/PID/status by their names. The kernel escapes a newline in
// Name.
func (s system) status(process string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(s.text("proc/" + process + "/status")) {
		name, value, _ := strings.Cut(line, ":")
		all[name] = strings.TrimSpace(value)
	}
	return all
}

// effective returns the effective UID of a line with the real, effective, saved and file-system
// UIDs, or -1.
func effective(line string) int {
	var real, uid int
	if _, err := fmt.Sscan(line, &real, &uid); err != nil {
		return -1
	}
	return uid
}
