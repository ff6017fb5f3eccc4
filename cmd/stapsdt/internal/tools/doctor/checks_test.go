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

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/wire"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// healthy returns the facts of a process that can be traced.
func healthy() *Facts {
	return &Facts{
		PID:  12,
		Host: Host{Release: "6.18.44", Machine: elf.EM_X86_64, Uprobes: UprobesThere, Lockdown: "none"},
		Self: Self{OwnProc: true},
		Process: Process{
			Alive: true, Name: "shop", UID: 1000, Socket: socket.ErrNone,
		},
		Images: []Image{{
			Path: "/tmp/stapsdt-1000/shop-0123456789abcdef0123456789abcdef.so", ID: target.ID{Device: 1, Inode: 2},
			Probes: []Name{{"shop", "order"}, {"shop", "payment"}},
		}},
		Trial: Trial{Name: Name{"shop", "order"}, Path: "FILE", During: true, Known: true},
	}
}

func (f *Facts) asks(text string) {
	spec, err := spec.Parse(text)
	if err != nil {
		panic(err)
	}
	f.Spec = &spec
}

// diagnoses are changes to what is healthy, and the findings that they lead to: the cause, the
// level, and a part of what it says or of the remedy.
var diagnoses = []struct {
	name   string
	change func(*Facts)
	want   []string
	status int
}{
	{"healthy", func(*Facts) {}, nil, 0},
	{"siblings", func(f *Facts) { f.Process.Siblings = []int{13, 14} }, []string{"siblings note also runs as 13, 14,"}, 0},
	{"no process", func(f *Facts) { *f = Facts{PID: 12, Self: f.Self, Host: f.Host} }, []string{"no-process fault There is no process 12"}, 3},
	{"no process in a container", func(f *Facts) {
		*f = Facts{PID: 12, Self: f.Self, Host: f.Host}
		f.Self.InPIDNamespace = true
	}, []string{"no-process fault --pid=host"}, 3},
	{"another /proc", func(f *Facts) { f.Self.OwnProc = false }, []string{"no-process fault --mount-proc"}, 6},
	{"another user", func(f *Facts) {
		f.Self.UID, f.Process.Refused, f.Images, f.Trial = 65534, fs.ErrPermission, nil, Trial{}
	}, []string{"user fault Process 12 runs as user 1000, but stapsdt as user 65534"}, 4},
	{"another user who listens", func(f *Facts) {
		f.Self.UID, f.Process.Refused, f.Images, f.Trial = 65534, fs.ErrPermission, nil, Trial{}
		f.Process.Socket = socket.ErrUser
	}, []string{"socket note Root is not needed", "user fault Run stapsdt as user 1000: the process listens, and root is not needed."}, 4},
	{"more capable", func(f *Facts) {
		f.Self.UID, f.Process.Refused, f.Images, f.Trial = 1000, fs.ErrPermission, nil, Trial{}
	}, []string{"user fault with every capability"}, 4},
	{"no capability", func(f *Facts) {
		f.Self.Missing, f.Trial.BPF = []rights.Capability{rights.BPF, rights.Perfmon, rights.Admin}, unix.EPERM
	}, []string{"capability fault Attaching to probes needs CAP_BPF and CAP_PERFMON."}, 4},
	{"no capability, though it could listen", func(f *Facts) { f.Self.Missing = []rights.Capability{rights.BPF} },
		[]string{"capability fault Or start the program with STAPSDT_SOCKET=1"}, 4},
	{"one capability", func(f *Facts) {
		f.Self.Missing, f.Trial.Attach = []rights.Capability{rights.Perfmon, rights.Admin}, unix.EACCES
	}, []string{"capability fault Attaching to probes needs CAP_PERFMON."}, 4},
	{"not CAP_SYS_ADMIN", func(f *Facts) { f.Self.Missing = []rights.Capability{rights.Admin} }, nil, 0},
	{"CAP_SYS_ADMIN demanded", func(f *Facts) {
		f.Self.Missing, f.Self.Seccomp, f.Trial.Attach = []rights.Capability{rights.Admin}, true, unix.EACCES
	}, []string{"capability fault Attaching to probes needs CAP_SYS_ADMIN."}, 4},
	{"user namespace", func(f *Facts) {
		f.Self.InUserNamespace, f.Trial.BPF = true, unix.EPERM
	}, []string{"capability fault of a user namespace"}, 4},
	{"security module", func(f *Facts) { f.Trial.Attach = unix.EACCES }, []string{"capability fault SELinux"}, 4},
	{"closed, and nothing else", func(f *Facts) {
		f.Closed, f.Images, f.Trial = errors.New("opening x needs y"), nil, Trial{}
	}, []string{"capability fault opening x needs y"}, 4},
	{"closed", func(f *Facts) { f.Closed = errors.New("opening x needs y") }, []string{"capability note opening x needs y"}, 0},
	{"put off, and nothing else", func(f *Facts) {
		f.Closed, f.Images, f.Trial = &target.PutOff{Path: "/x", Err: stall.Err}, nil, Trial{}
	}, []string{"capability fault /x is postponed: its file system does not answer. Try again"}, 6},
	{"left out", func(f *Facts) { f.Images, f.Trial, f.LeftOut = nil, Trial{}, []error{errors.New("/x is left out")} },
		[]string{"not-loaded fault Process 12 (shop) may have probes in a file that was not opened: /x is left out. Name the file"}, 3},
	{"not loaded", func(f *Facts) { f.Images, f.Trial = nil, Trial{} }, []string{"not-loaded fault Process 12 (shop) has no probes."}, 3},
	{"a Go program", func(f *Facts) { f.Images, f.Trial, f.Process.Go = nil, Trial{}, true }, []string{"not-loaded fault To trace its functions instead, see stapsdt list -p 12"}, 3},
	{"not loaded, with the library", func(f *Facts) {
		f.Images, f.Trial, f.Process.HasLibrary, f.Process.Directory = nil, Trial{}, true, "/a:b"
	}, []string{"not-loaded fault demands the directory /a:b and no other, which must be usable and have no colon"}, 3},
	{"unloaded", func(f *Facts) { f.Images, f.Trial, f.Process.Parked = nil, Trial{}, true }, []string{"not-loaded fault then unloaded"}, 3},
	{"a wrapper", func(f *Facts) { f.Images, f.Trial, f.Process.Children = nil, Trial{}, []int{13, 14} }, []string{"not-loaded note -p 12 stands for both"}, 0},
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
	{"another file", func(f *Facts) {
		f.asks("/x:shop:order")
		f.Named, f.Trial = Named{ID: target.ID{Device: 1, Inode: 3}, HasProbe: true}, Trial{}
	}, []string{"file fault The process has mapped /tmp/stapsdt-1000/shop"}, 6},
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
	}, []string{"file fault the file /proc/12/root/x"}, 6},
	{"lockdown", func(f *Facts) { f.Host.Lockdown = "confidentiality" }, []string{"lockdown note conditions and keys with executable are refused"}, 0},
	{"lockdown in the other mode", func(f *Facts) { f.Host.Lockdown = "integrity" }, nil, 0},
	{"a refusal under lockdown", func(f *Facts) { f.Host.Lockdown, f.Trial.BPF = "confidentiality", unix.EPERM },
		[]string{"capability fault The kernel refuses to trace here", "lockdown note no program can read its memory"}, 4},
	{"a filter under lockdown", func(f *Facts) {
		f.Host.Lockdown, f.Self.Seccomp, f.Trial.BPF = "confidentiality", true, unix.EPERM
	}, []string{"lockdown note no program can read its memory", "seccomp fault operation not permitted."}, 6},
	{"a filter", func(f *Facts) { f.Self.Seccomp, f.Trial.BPF = true, unix.EPERM }, []string{"seccomp fault operation not permitted."}, 6},
	{"a filter that lies", func(f *Facts) { f.Self.Seccomp, f.Trial.Attach = true, unix.ENOSYS }, []string{"seccomp fault function not implemented."}, 6},
	{"a filter that allows", func(f *Facts) { f.Self.Seccomp = true }, nil, 0},
	{"a filter, but no capability", func(f *Facts) {
		f.Self.Seccomp, f.Self.Missing, f.Trial.BPF = true, []rights.Capability{rights.BPF, rights.Perfmon}, unix.EPERM
	}, []string{"capability fault CAP_BPF and CAP_PERFMON"}, 4},
	{"no uprobes", func(f *Facts) { f.Host.Uprobes, f.Trial.Attach = UprobesMissing, unix.ENOENT }, []string{"uprobes fault CONFIG_UPROBE_EVENTS"}, 6},
	{"no uprobes, and nothing to try", func(f *Facts) {
		f.asks("a:b")
		f.Host.Uprobes, f.Trial = UprobesMissing, Trial{}
	}, []string{"name fault nearest", "uprobes fault CONFIG_UPROBE_EVENTS"}, 3},
	{"no event source, but uprobe_multi", func(f *Facts) { f.Host.Uprobes = UprobesMissing }, nil, 0},
	{"no sysfs", func(f *Facts) { f.Host.Uprobes, f.Trial.Attach = UprobesUnknown, unix.ENOENT }, []string{"sys fault mount -t sysfs"}, 6},
	{"no sysfs, although the kernel can", func(f *Facts) { f.Host.Uprobes = UprobesUnknown }, []string{"sys fault /sys is not mounted"}, 6},
	{"no /proc", func(f *Facts) {
		*f = Facts{PID: 12, Self: Self{NoProc: true}}
	}, []string{"proc fault mount -t proc"}, 6},
	{"moved code", func(f *Facts) { f.Images[0].Moved = true }, []string{"moved fault has moved the code of"}, 3},
	{"a library that is mapped twice", func(f *Facts) { f.Images[0].Twice = true }, []string{"twice note is mapped twice in process 12"}, 0},
	{"a deleted recording", func(f *Facts) { f.Process.Deleted = []recordings.Recording{{File: "/x.rec", Deleted: "/proc/12/fd/5"}} },
		[]string{"deleted note its recording was deleted or unmounted: /x.rec. Until the process ends, --from /proc/12/fd/5 reads it."}, 0},
	{"a deleted image", func(f *Facts) { f.Images[0].Deleted = true }, []string{"deleted note was deleted or replaced since process 12 mapped it"}, 0},
	{"stopped", func(f *Facts) { f.Process.Stopped = true }, []string{"stopped fault kill -CONT 12"}, 6},
	{"Linux 5.7", func(f *Facts) { f.Host.Release = "5.7.0-19-amd64" }, []string{"kernel fault Linux 5.7.0-19-amd64 is too old"}, 6},
	{"Linux 5.8", func(f *Facts) { f.Host.Release = "5.8" }, nil, 0},
	{"emulated", func(f *Facts) {
		f.Images, f.Trial, f.Process.Foreign = nil, Trial{}, elf.EM_S390
	}, []string{"architecture fault (S390) is not the kernel's (X86_64)"}, 6},
	{"a nop that it cannot trace", func(f *Facts) { f.Trial.Attach = unix.Errno(524) }, []string{"site fault STAPSDT_SITE"}, 6},
	{"an overlay", func(f *Facts) { f.Trial.During = false }, []string{"overlay fault executes another file"}, 6},
	{"listens", func(f *Facts) { f.Process.Socket = nil }, nil, 0},
	{"of another user", func(f *Facts) { f.Process.Socket = socket.ErrUser }, []string{"socket note as that user"}, 0},
	{"has not listened", func(f *Facts) { f.Process.Asked = true }, []string{"socket note look at the error"}, 0},
	{"refused values", func(f *Facts) { f.Process.Invalid = []error{errors.New("this"), errors.New("that")} },
		[]string{"variable note refuses: this.", "variable note refuses: that."}, 0},
	{"deleted", func(f *Facts) { f.Process.Socket = socket.ErrDeleted }, []string{"socket note call Listen again"}, 0},
	{"out of reach", func(f *Facts) { f.Process.Socket = socket.ErrRefused }, []string{"socket note in its container"}, 0},
	{"too new", func(f *Facts) { f.Process.Socket = wire.ErrVersion }, []string{"socket note the same major version"}, 0},
	{"listens under lockdown", func(f *Facts) { f.Process.Socket, f.Host.Lockdown = nil, "confidentiality" },
		[]string{"lockdown note no program can read its memory"}, 0},
	{"listens to an ordinary user", func(f *Facts) {
		f.Process.Socket, f.Self.Missing = nil, []rights.Capability{rights.BPF}
	}, []string{"capability note only what needs the kernel"}, 0},
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
				assert.NotEmpty(t, each.Message, "not a sentence: %+v", each)
				assert.True(t, strings.HasSuffix(each.Message, "."), "not a sentence: %+v", each)
				if each.Remedy != "" {
					assert.True(t, strings.HasSuffix(each.Remedy, "."), "not a sentence: %+v", each)
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
				assert.Contains(t, got.Message+" "+got.Remedy, words[2], "%+v", got)
			}
			assert.Equal(t, c.status, Status(findings))
		})
	}
	for _, c := range checks {
		assert.True(t, found[c.cause], "nothing leads to %s", c.cause)
	}
}

// TestAttachNoEventSource: without the event source of uprobes, only uprobe_multi is tried, whose error is this one.
func TestAttachNoEventSource(t *testing.T) {
	_, err := (&Facts{PID: 1 << 30}).attach("/proc/self/exe", 0, nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "prog cannot be nil", "it has tried a perf event, and would have tried tracefs")
}

// TestSections: each cause has a section in the guide.
func TestSections(t *testing.T) {
	guide, err := os.ReadFile("../../../../../docs/nothing-shows.md")
	require.NoError(t, err)
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(string(guide), -1) {
		name := regexp.MustCompile(`[^a-z0-9_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		sections[strings.ReplaceAll(name, " ", "-")] = true
	}
	for _, c := range checks {
		assert.True(t, sections[c.see], "%s: there is no section %s", c.cause, c.see)
	}
}

// TestFires: a process of the same interpreter fires events of its own only if it has the probes.
func TestFires(t *testing.T) {
	uses := func(provider string) []target.Use {
		return []target.Use{{File: &target.File{Probes: []sdt.Site{{Provider: provider, Name: "tick"}}}}}
	}
	tasks := &Facts{Images: []Image{{Probes: []Name{{"tasks", "tick"}}}}}
	require.True(t, tasks.fires(uses("tasks")))
	require.False(t, tasks.fires(uses("other")))
	require.False(t, tasks.fires(nil))
	require.True(t, (&Facts{}).fires(uses("other")), "this process has no probes, but the user may have that one in mind")
	require.False(t, (&Facts{}).fires(nil))
	only, err := spec.Parse("tasks:tock")
	require.NoError(t, err)
	require.False(t, (&Facts{Spec: &only}).fires(uses("tasks")))
}
