//go:build linux

package doctor

import (
	"debug/elf"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// system is the root directory of a system, or a recorded one.
type system struct{ fs.FS }

// text returns the content of a file without the spaces around it, and "" if it cannot be
// read.
func (s system) text(path string) string {
	content, err := fs.ReadFile(s.FS, path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// link returns what a link leads to, and "" if it cannot be read.
func (s system) link(path string) string {
	to, err := fs.ReadLink(s.FS, path)
	if err != nil {
		return ""
	}
	return to
}

// has reports whether a file exists.
func (s system) has(path string) bool {
	_, err := fs.Stat(s.FS, path)
	return err == nil
}

// machines maps the names of uname(2) to the architectures of the command.
var machines = map[string]struct {
	machine elf.Machine
	class   elf.Class
}{
	"x86_64":  {elf.EM_X86_64, elf.ELFCLASS64},
	"aarch64": {elf.EM_AARCH64, elf.ELFCLASS64},
	"riscv64": {elf.EM_RISCV, elf.ELFCLASS64},
	"s390x":   {elf.EM_S390, elf.ELFCLASS64},
	"ppc64le": {elf.EM_PPC64, elf.ELFCLASS64},
	"i686":    {elf.EM_386, elf.ELFCLASS32},
	"armv7l":  {elf.EM_ARM, elf.ELFCLASS32},
}

// host reads what the system says about its kernel. The release and the machine are those of
// uname(2), which is what tracers go by.
func (s system) host(release, machine string) Host {
	h := Host{
		Release:  release,
		Machine:  machines[machine].machine,
		Class:    machines[machine].class,
		Paranoid: s.text("proc/sys/kernel/perf_event_paranoid"),
		Lockdown: chosen(s.text("sys/kernel/security/lockdown")),
	}
	switch devices := "sys/bus/event_source/devices"; {
	case s.has(devices + "/uprobe"):
		h.Uprobes = UprobesThere
	case s.has(devices):
		h.Uprobes = UprobesMissing
	}
	h.Tracefs, h.Mounts = s.tracefs()
	return h
}

// chosen returns the word in brackets, as in "none [integrity] confidentiality".
func chosen(words string) string {
	_, rest, _ := strings.Cut(words, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

// tracefs returns where tracefs is mounted for this process, if it is where tracers look. The
// last mount at a place hides those before it.
func (s system) tracefs() (at string, known bool) {
	info := s.text("proc/self/mountinfo")
	const path, debug = "/sys/kernel/tracing", "/sys/kernel/debug"
	found := map[string]string{}
	for line := range strings.Lines(info) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(kind) == 0 {
			continue
		}
		for place := range found {
			if within(place, fields[4]) {
				delete(found, place)
			}
		}
		switch {
		case kind[0] == "tracefs":
			found[fields[4]] = kind[0]
		case kind[0] == "debugfs" && fields[4] == debug:
			found[debug+"/tracing"] = kind[0] // which is mounted when it is opened
		}
	}
	for _, place := range []string{path, debug + "/tracing"} {
		if found[place] != "" {
			return place, true
		}
	}
	return "", info != ""
}

// within reports whether a path is a directory or is in it.
func within(path, directory string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(directory, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// self reads what the system says about this process. Its number in its own PID namespace
// is pid.
func (s system) self(pid int) Self {
	status := parseStatus(s.text("proc/thread-self/status"))
	return Self{
		UID:          status.uid(),
		Capabilities: status.capabilities,
		Seccomp:      status.seccomp,
		Namespaces:   s.namespaces("self"),
		NoProc:       !s.has("proc/version"),
		OwnProc:      s.link("proc/self") == strconv.Itoa(pid),
	}
}

func (s system) namespaces(process string) Namespaces {
	directory := "proc/" + process + "/ns/"
	return Namespaces{PID: s.link(directory + "pid"), Mount: s.link(directory + "mnt"), User: s.link(directory + "user")}
}

// status is the content of /proc/PID/status.
type status struct {
	name         string
	uids         []int
	numbers      []int
	capabilities uint64
	seccomp      bool
}

func parseStatus(text string) (s status) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Name":
			s.name = value
		case "Uid":
			s.uids = integers(value)
		case "NSpid":
			s.numbers = integers(value)
		case "CapEff":
			s.capabilities, _ = strconv.ParseUint(value, 16, 64)
		case "Seccomp":
			s.seccomp = value == "2" // a filter
		}
	}
	return s
}

// uid returns the effective user, or -1.
func (s status) uid() int {
	if len(s.uids) < 2 {
		return -1
	}
	return s.uids[1]
}

func integers(text string) (all []int) {
	for word := range strings.FieldsSeq(text) {
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// process reads what the system says about a process.
func (s system) process(pid int) Process {
	directory := "proc/" + strconv.Itoa(pid)
	status := parseStatus(s.text(directory + "/status"))
	state := state(s.text(directory + "/stat"))
	p := Process{
		Name: status.name, UIDs: status.uids, Numbers: status.numbers,
		Namespaces: s.namespaces(strconv.Itoa(pid)),
		Alive:      state != 0 && state != 'Z' && state != 'X', // a zombie has exited
		Stopped:    state == 'T' || state == 't',
	}
	if environment, err := fs.ReadFile(s.FS, directory+"/environ"); err == nil {
		for variable := range strings.SplitSeq(string(environment), "\x00") {
			if value, ok := strings.CutPrefix(variable, "STAPSDT_DIR="); ok {
				p.Directory = value
				break // the first counts
			}
		}
	}
	return p
}

// state returns the letter of a process's state in /proc/PID/stat, or 0.
func state(stat string) byte {
	at := strings.LastIndex(stat, ") ") // the name, before it, may contain anything
	if at < 0 || len(stat) <= at+2 {
		return 0
	}
	return stat[at+2]
}

// has reports whether a set of capabilities has one, or CAP_SYS_ADMIN, which includes the
// newer ones.
func (s Self) has(capability int) bool {
	admin := false
	switch capability {
	case unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_CHECKPOINT_RESTORE:
		admin = s.Capabilities&(1<<unix.CAP_SYS_ADMIN) != 0
	}
	return admin || s.Capabilities&(1<<capability) != 0
}

// denied reports whether an error is a refusal.
func denied(err error) bool { return errors.Is(err, fs.ErrPermission) }
