//go:build linux

package doctor

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/socket"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/internal/wire"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// healthy returns the facts of a process that every tracer can trace.
func healthy() *Facts {
	id := target.ID{Device: 1, Inode: 2}
	return &Facts{
		PIDs: []int{12}, PID: 12,
		Host: Host{
			Release: "6.18.44", Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Uprobes: UprobesThere,
			Tracefs: "/sys/kernel/tracing", Mounts: true, Lockdown: "none", Paranoid: "2",
		},
		Self: Self{Capabilities: 1<<41 - 1, Namespaces: Namespaces{PID: initialPID, Mount: "mnt:[1]", User: initialUser}, OwnProc: true},
		Process: Process{
			Alive: true, Name: "shop", UIDs: []int{1000, 1000, 1000, 1000}, Numbers: []int{12},
			Namespaces: Namespaces{PID: initialPID, Mount: "mnt:[1]", User: initialUser},
			Socket:     socket.ErrNone,
		},
		Images: []Image{{
			Path: "/tmp/stapsdt-1000/shop-0123456789abcdef0123456789abcdef.so", Mapping: "7f00-8f00", ID: id, Descriptor: -1, Machine: elf.EM_X86_64, Class: elf.ELFCLASS64,
			Probes: []Name{{"shop", "order"}, {"shop", "payment"}}, InRoot: LeadsToImage, Here: LeadsToImage,
		}},
		Trial: Trial{Name: Name{"shop", "order"}, Path: "FILE", During: true, Known: true},
	}
}

// asks sets the spec.
func (f *Facts) asks(text string) {
	spec, err := target.ParseSpec(text)
	if err != nil {
		panic(err)
	}
	f.Spec = &spec
}

const otherHash = "/tmp/stapsdt-1000/shop-ffffffffffffffffffffffffffffffff.so"

// diagnoses are changes to what is healthy, and the findings that they lead to: the cause, the
// level, and a part of what it says or of the cure.
var diagnoses = []struct {
	name   string
	change func(*Facts)
	want   []string
	status int
}{
	{"healthy", func(*Facts) {}, nil, 0},
	{"healthy, asked for", func(f *Facts) { f.asks("shop:ord*") }, nil, 0},
	{"two processes", func(f *Facts) { f.PIDs = []int{12, 13} }, []string{"two-processes fault the processes 12 and 13"}, 6},
	{"siblings", func(f *Facts) { f.Process.Siblings = []int{13} }, []string{"two-processes note 1 other process runs the same"}, 0},
	{"no process", func(f *Facts) { *f = Facts{PID: 12, Self: f.Self, Host: f.Host} }, []string{"no-process fault There is no process 12"}, 3},
	{"no process in a container", func(f *Facts) {
		*f = Facts{PID: 12, Self: f.Self, Host: f.Host}
		f.Self.Namespaces.PID = "pid:[4026532301]"
	}, []string{"pid-namespace fault --pid=host"}, 3},
	{"another /proc", func(f *Facts) { f.Self.OwnProc = false }, []string{"pid-namespace fault --mount-proc"}, 6},
	{"another PID namespace", func(f *Facts) {
		f.Process.Numbers, f.Process.Namespaces.PID = []int{12, 1}, "pid:[4026532301]"
	}, []string{"filter note where its number is 1. Filters by pid compare 12."}, 0},
	{"from a container", func(f *Facts) { f.Self.Namespaces.PID = "pid:[4026532301]" }, []string{"filter note not the initial one"}, 0},
	{"another user", func(f *Facts) {
		f.Self.UID, f.Process.Refused, f.Images, f.Trial = 65534, fs.ErrPermission, nil, Trial{}
		f.Self.Capabilities = 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON
	}, []string{"user fault Process 12 belongs to user 1000, and this is user 65534", "capability limit runs as root only"}, 4},
	{"more capable", func(f *Facts) {
		f.Self.UID, f.Process.Refused, f.Images, f.Trial = 1000, fs.ErrPermission, nil, Trial{}
	}, []string{"user fault cannot be looked at", "capability limit runs as root only"}, 4},
	{"no capability", func(f *Facts) {
		f.Self.Capabilities, f.Trial.BPF, f.Trial.Perf = 0, unix.EPERM, unix.EACCES
	}, []string{"capability fault Attaching to probes needs CAP_BPF and CAP_PERFMON. It does not matter that perf_event_paranoid is 2"}, 4},
	{"one capability", func(f *Facts) {
		f.Self.Capabilities, f.Trial.Perf = 1<<unix.CAP_BPF, unix.EACCES
	}, []string{"capability fault Attaching to probes needs CAP_PERFMON."}, 4},
	{"not CAP_SYS_ADMIN", func(f *Facts) { f.Self.Capabilities &^= 1 << unix.CAP_SYS_ADMIN }, []string{"capability limit bpftrace 0.17 needs CAP_SYS_ADMIN"}, 7},
	{"CAP_SYS_ADMIN demanded", func(f *Facts) {
		f.Self.Capabilities &^= 1 << unix.CAP_SYS_ADMIN
		f.Self.Seccomp, f.Trial.Perf = true, unix.EACCES
	}, []string{"capability fault Attaching to probes needs CAP_SYS_ADMIN."}, 4},
	{"user namespace", func(f *Facts) {
		f.Self.Namespaces.User, f.Trial.BPF = "user:[4026532999]", unix.EPERM
	}, []string{"capability fault of a user namespace"}, 4},
	{"security module", func(f *Facts) { f.Trial.Perf = unix.EACCES }, []string{"capability fault SELinux"}, 4},
	{"closed, and nothing else", func(f *Facts) {
		f.Closed, f.Images, f.Trial = errors.New("opening x needs y"), nil, Trial{}
	}, []string{"capability fault opening x needs y"}, 4},
	{"closed", func(f *Facts) { f.Closed = errors.New("opening x needs y") }, []string{"capability limit opening x needs y"}, 7},
	{"not loaded", func(f *Facts) { f.Images, f.Trial = nil, Trial{} }, []string{"not-loaded fault Process 12 (shop) has no probes"}, 3},
	{"not loaded, with the library", func(f *Facts) {
		f.Images, f.Trial, f.Process.HasLibrary, f.Process.Directory = nil, Trial{}, true, "/probes"
	}, []string{"not-loaded fault demands the directory /probes"}, 3},
	{"a colon", func(f *Facts) {
		f.Images, f.Trial, f.Process.HasLibrary, f.Process.Directory = nil, Trial{}, true, "/a:b"
	}, []string{"not-loaded fault with a colon"}, 3},
	{"unloaded", func(f *Facts) { f.Images, f.Trial, f.Process.Parked = nil, Trial{}, true }, []string{"not-loaded fault then unloaded"}, 3},
	{"a wrapper", func(f *Facts) { f.Images, f.Trial, f.Process.Children = nil, Trial{}, []int{13, 14} }, []string{"not-loaded fault Use -p 13."}, 3},
	{"another name", func(f *Facts) { f.asks("shop:oder"); f.Trial = Trial{} }, []string{"name fault The nearest name is shop:order; it also has shop:payment."}, 3},
	{"another provider", func(f *Facts) { f.asks("*:pay"); f.Trial = Trial{} }, []string{"name fault The nearest name is shop:payment"}, 3},
	{"the file has another name", func(f *Facts) {
		f.asks("FILE:shop:order")
		f.Named.ID = f.Images[0].ID
	}, []string{"name fault FILE has no probe shop:order"}, 3},
	{"the program's file", func(f *Facts) {
		f.asks("/bin/shop:shop:order")
		f.Named.Err, f.Trial = fmt.Errorf("/bin/shop: %w", sdt.ErrNoProbes), Trial{}
	}, []string{"file fault /bin/shop has no probes"}, 3},
	{"the file of another user", func(f *Facts) {
		f.asks("/tmp/stapsdt-0/shop-0123456789abcdef0123456789abcdef.so:shop:order")
		f.Named, f.Trial = Named{ID: target.ID{Device: 1, Inode: 3}, HasProbe: true, Owner: 0}, Trial{}
	}, []string{"file fault runs as user 1000, and the file is one of user 0"}, 6},
	{"another directory", func(f *Facts) {
		f.asks("/run/user/1000/stapsdt/shop-0123456789abcdef0123456789abcdef.so:shop:order")
		f.Named, f.Trial = Named{ID: target.ID{Device: 1, Inode: 3}, HasProbe: true, Owner: 1000}, Trial{}
	}, []string{"file fault TMPDIR"}, 6},
	{"another version", func(f *Facts) {
		f.asks(otherHash + ":shop:order")
		f.Named, f.Trial = Named{ID: target.ID{Device: 1, Inode: 3}, HasProbe: true, Owner: 1000}, Trial{}
	}, []string{"file fault another set of probes"}, 6},
	{"the same path elsewhere", func(f *Facts) {
		f.asks(f.Images[0].Path + ":shop:order")
		f.Named, f.Trial, f.Process.Namespaces.Mount = Named{ID: target.ID{Device: 1, Inode: 3}, HasProbe: true}, Trial{}, "mnt:[2]"
	}, []string{"file fault the process's own file system"}, 6},
	{"the file may not be opened", func(f *Facts) {
		f.asks("FILE:shop:order")
		f.Named.Err, f.Trial = &fs.PathError{Op: "open", Path: "FILE", Err: unix.EACCES}, Trial{}
	}, []string{"file fault permission denied"}, 4},
	{"no such file", func(f *Facts) {
		f.asks("/x:shop:order")
		f.Named.Err, f.Trial = &fs.PathError{Op: "open", Path: "/x", Err: unix.ENOENT}, Trial{}
	}, []string{"file fault no such file"}, 3},
	{"a file of the process", func(f *Facts) {
		f.asks("/x:shop:order")
		f.Named, f.Trial = Named{Err: &fs.PathError{Op: "open", Path: "/x", Err: unix.ENOENT}, InRoot: true}, Trial{}
	}, []string{"mount-namespace fault to /proc/12/root/x"}, 6},
	{"its own file system", func(f *Facts) { f.Images[0].Here = LeadsNowhere }, []string{"mount-namespace note does not exist here"}, 0},
	{"another file here", func(f *Facts) { f.Images[0].Here = LeadsElsewhere }, []string{"mount-namespace note is another file here"}, 0},
	{"lockdown", func(f *Facts) { f.Host.Lockdown, f.Trial.BPF = "confidentiality", unix.EPERM }, []string{"lockdown fault lockdown=integrity"}, 6},
	{"a filter", func(f *Facts) { f.Self.Seccomp, f.Trial.BPF = true, unix.EPERM }, []string{"seccomp fault bpf (operation not permitted)."}, 6},
	{"a filter that lies", func(f *Facts) { f.Self.Seccomp, f.Trial.Perf = true, unix.ENOSYS }, []string{"seccomp fault perf_event_open (function not implemented)."}, 6},
	{"a filter that allows", func(f *Facts) { f.Self.Seccomp = true }, nil, 0},
	{"a filter, but no capability", func(f *Facts) {
		f.Self.Seccomp, f.Self.Capabilities, f.Trial.BPF = true, 1<<unix.CAP_SYS_PTRACE, unix.EPERM
	}, []string{"capability fault CAP_BPF and CAP_PERFMON"}, 4},
	{"no uprobes", func(f *Facts) {
		f.Host.Uprobes, f.Trial.Perf = UprobesMissing, errNoUprobes
	}, []string{"uprobes fault CONFIG_UPROBE_EVENTS"}, 6},
	{"no event source", func(f *Facts) {
		f.Host.Uprobes = UprobesMissing
	}, []string{"uprobes limit stapsdt can"}, 7},
	{"no sysfs", func(f *Facts) { f.Host.Uprobes, f.Trial.Perf = UprobesUnknown, errNoUprobes }, []string{"sys fault mount -t sysfs"}, 6},
	{"no sysfs, although the kernel can", func(f *Facts) { f.Host.Uprobes = UprobesUnknown }, []string{"sys fault /sys is not mounted"}, 6},
	{"no /proc", func(f *Facts) {
		*f = Facts{PID: 12, Self: Self{NoProc: true}}
	}, []string{"proc fault mount -t proc"}, 6},
	{"stopped", func(f *Facts) { f.Process.Stopped = true }, []string{"stopped fault kill -CONT 12"}, 6},
	{"set-user-ID", func(f *Facts) {
		f.Self.UID, f.Process.UIDs, f.Process.Refused, f.Images, f.Trial = 1000, []int{1000, 0, 0, 0}, fs.ErrPermission, nil, Trial{}
	}, []string{"user fault with the rights of user 0, because its file is set-user-ID", "capability limit runs as root only"}, 4},
	{"Linux 4.9", func(f *Facts) { f.Host.Release = "4.9.0-19-amd64" }, []string{"kernel fault Linux 4.9.0-19-amd64 is too old"}, 6},
	{"Linux 5.4", func(f *Facts) { f.Host.Release = "5.4.0-200-generic" }, []string{"kernel limit takes Linux 5.8"}, 7},
	{"32 bits", func(f *Facts) { f.Images[0].Machine, f.Images[0].Class = elf.EM_386, elf.ELFCLASS32 }, []string{"architecture limit 32 bits (386)"}, 7},
	{"x32", func(f *Facts) { f.Images[0].Class = elf.ELFCLASS32 }, []string{"architecture limit 32 bits (X86_64)"}, 7},
	{"another architecture", func(f *Facts) { f.Images[0].Machine = elf.EM_AARCH64 }, []string{"architecture fault (AARCH64) than the kernel's (X86_64)"}, 6},
	{"emulated", func(f *Facts) {
		f.Images, f.Trial, f.Process.Emulated = nil, Trial{}, elf.EM_S390
	}, []string{"architecture fault (S390)"}, 6},
	{"a nop that it cannot trace", func(f *Facts) { f.Trial.Perf = unix.Errno(524) }, []string{"site fault STAPSDT_SITE"}, 6},
	{"an overlay", func(f *Facts) { f.Trial.During = false }, []string{"overlay fault executes another file"}, 6},
	{"deleted", func(f *Facts) { f.Images[0].InRoot, f.Images[0].Deleted = LeadsNowhere, true }, []string{"deleted limit was deleted. bpftrace"}, 7},
	{"a path of another file system", func(f *Facts) { f.Images[0].InRoot = LeadsNowhere }, []string{"deleted limit There is no file /tmp/"}, 7},
	{"replaced", func(f *Facts) { f.Images[0].InRoot = LeadsElsewhere }, []string{"replaced limit was replaced"}, 7},
	{"in memory", func(f *Facts) {
		f.Images[0].InMemory, f.Images[0].Path, f.Images[0].InRoot, f.Images[0].Descriptor = true, "/memfd:shop", LeadsNowhere, 5
	}, []string{"memory limit /proc/12/fd/5"}, 7},
	{"in memory, the second probe", func(f *Facts) {
		f.asks("shop:payment")
		f.Images[0].InMemory, f.Images[0].Path, f.Images[0].InRoot = true, "/memfd:shop", LeadsNowhere
	}, []string{"memory limit The image of shop:payment is in memory"}, 7},
	{"in memory, closed", func(f *Facts) {
		f.Images[0].InMemory, f.Images[0].Path, f.Images[0].InRoot = true, "/memfd:shop", LeadsNowhere
	}, []string{"memory limit map_files/7f00-8f00"}, 7},
	{"a dash", func(f *Facts) { f.Images[0].Probes[1].Probe = "pay-ment" }, []string{"characters limit perf does not take the name shop:pay-ment"}, 7},
	{"quotes", func(f *Facts) { f.Images[0].Probes[0].Provider = "a$b" }, []string{`characters limit usdt:*:"a$b":"order"`}, 7},
	{"a digit", func(f *Facts) { f.Images[0].Probes[0].Provider = "s1" }, []string{"characters note DTrace cannot trace s1:order"}, 0},
	{"the same names", func(f *Facts) {
		other := f.Images[0]
		other.Path = "OTHER"
		f.Images = append(f.Images, other)
	}, []string{"same-names limit and OTHER"}, 7},
	{"no tracefs", func(f *Facts) { f.Host.Tracefs = "" }, []string{"tracefs limit mount -t tracefs"}, 7},
	{"no tracefs, perhaps", func(f *Facts) { f.Host.Tracefs, f.Host.Mounts = "", false }, nil, 0},
	{"listens", func(f *Facts) { f.Process.Socket = nil }, nil, 0},
	{"of another user", func(f *Facts) { f.Process.Socket = socket.ErrUser }, []string{"socket note as that user"}, 0},
	{"stale", func(f *Facts) { f.Process.Socket = socket.ErrStale }, []string{"socket limit call Listen again"}, 7},
	{"out of reach", func(f *Facts) { f.Process.Socket = socket.ErrRefused }, []string{"socket limit in its container"}, 7},
	{"too new", func(f *Facts) { f.Process.Socket = wire.ErrVersion }, []string{"socket limit the same major version"}, 7},
	{"listens without a capability", func(f *Facts) {
		f.Process.Socket, f.Host.Lockdown = nil, "confidentiality"
	}, []string{"lockdown limit does not concern stapsdt"}, 7},
	{"listens to an ordinary user", func(f *Facts) {
		f.Process.Socket, f.Self.UID, f.Self.Capabilities = nil, 1000, 0
	}, []string{"capability limit because the process listens. For other tracers: run the tracer as root"}, 7},
	{"traced", func(f *Facts) { f.Trial.Before = true }, []string{"traced note A tracer is attached to shop:order"}, 0},
}

// TestDiagnose: each change leads to its finding, and to no other.
func TestDiagnose(t *testing.T) {
	found := map[string]bool{}
	for _, c := range diagnoses {
		t.Run(c.name, func(t *testing.T) {
			f := healthy()
			c.change(f)
			findings := Diagnose(f)
			var left []Finding
			for _, each := range findings {
				found[each.Cause] = true
				assert.NotEmpty(t, each.Says, "not a sentence: %+v", each)
				assert.True(t, strings.HasSuffix(each.Says, "."), "not a sentence: %+v", each)
				if each.Cure != "" {
					assert.True(t, strings.HasSuffix(each.Cure, "."), "not a sentence: %+v", each)
				}
				if each.Level != Fine {
					left = append(left, each)
				}
			}
			require.Len(t, left, len(c.want))
			for i, want := range c.want {
				words := strings.SplitN(want, " ", 3)
				got := left[i]
				assert.Equal(t, words[0], got.Cause, "%+v", got)
				assert.Equal(t, words[1], string(got.Level), "%+v", got)
				assert.Contains(t, got.Says+" "+got.Cure, words[2], "%+v", got)
			}
			assert.Equal(t, c.status, Status(findings))
		})
	}
	for _, c := range checks {
		assert.True(t, found[c.cause], "nothing leads to %s", c.cause)
	}
}

// unseen are the sections of docs/nothing-shows.md on causes that no check can find, with the
// reason.
var unseen = map[string]string{
	"A directory has a colon in its path": "not-loaded says so",
	"The tracer follows one thread":       "it depends on the tracer's options",
	"The text is cut":                     "it depends on the tracer's environment",
	"Some events are missing":             "the tracer says so",
}

// TestSections: each cause has a section in the guide, and each section on a cause is found
// by a check.
func TestSections(t *testing.T) {
	guide, err := os.ReadFile("../../../../docs/nothing-shows.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(string(guide), -1) {
		name := regexp.MustCompile(`[^a-z0-9_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		sections[strings.ReplaceAll(name, " ", "-")] = m[1]
	}
	seen := map[string]bool{}
	for _, c := range checks {
		assert.NotEmpty(t, sections[c.see], "%s: there is no section %s", c.cause, c.see)
		seen[sections[c.see]] = true
	}
	for _, name := range sections {
		assert.NotEqual(t, unseen[name] != "", seen[name], "%s: either a check finds it, or unseen states why none does", name)
	}
}
