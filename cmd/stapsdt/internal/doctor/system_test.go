//go:build linux

package doctor

import (
	"debug/elf"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
)

// recorded makes a system of the contents of files, and of the targets of links.
func recorded(files, links map[string]string) system {
	all := fstest.MapFS{}
	for path, content := range files {
		all[path] = &fstest.MapFile{Data: []byte(content), Mode: 0o444}
	}
	for path, to := range links {
		all[path] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
	}
	return system{all}
}

// The mounts of Debian 12, of a container of Docker, and of a system whose tracefs is the one
// in debugfs, hidden by another mount.
const (
	mountsDebian = `22 27 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
27 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
33 22 0:7 / /sys/kernel/debug rw,nosuid,nodev,noexec,relatime shared:14 - debugfs debugfs rw
34 22 0:12 / /sys/kernel/tracing rw,nosuid,nodev,noexec,relatime shared:15 - tracefs tracefs rw
`
	mountsDocker = `1243 1120 0:131 / / rw,relatime master:410 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A
1244 1243 0:134 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1247 1243 0:137 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro
1252 1247 0:140 / /sys/firmware ro,relatime - tmpfs tmpfs ro,inode64
`
	mountsDebug = `33 22 0:7 / /sys/kernel/debug rw,relatime shared:14 - debugfs debugfs rw
`
	mountsHidden = mountsDebian + `90 22 0:99 / /sys/kernel rw,relatime - tmpfs none rw
`
)

// TestHost: the machine is what the files of /proc and /sys say.
func TestHost(t *testing.T) {
	devices := "sys/bus/event_source/devices/"
	for name, c := range map[string]struct {
		files map[string]string
		want  Host
	}{
		"Debian 12": {
			map[string]string{
				"proc/sys/kernel/perf_event_paranoid": "3\n",
				"sys/kernel/security/lockdown":        "none [integrity] confidentiality\n",
				devices + "uprobe/type":               "9\n",
				"proc/self/mountinfo":                 mountsDebian,
			},
			Host{Release: "r", Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Uprobes: UprobesThere, Tracefs: "/sys/kernel/tracing", Mounts: true, Lockdown: "integrity", Paranoid: "3"},
		},
		"Docker": {
			map[string]string{devices + "uprobe/type": "9\n", "proc/self/mountinfo": mountsDocker},
			Host{Release: "r", Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Uprobes: UprobesThere, Mounts: true},
		},
		"gVisor": {
			map[string]string{devices + "cpu/type": "4\n", "proc/self/mountinfo": mountsDocker, "proc/sys/kernel/perf_event_paranoid": "2\n"},
			Host{Release: "r", Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Uprobes: UprobesMissing, Mounts: true, Paranoid: "2"},
		},
		"debugfs": {
			map[string]string{"proc/self/mountinfo": mountsDebug, "sys/kernel/security/lockdown": "none integrity [confidentiality]"},
			Host{Release: "r", Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Tracefs: "/sys/kernel/debug/tracing", Mounts: true, Lockdown: "confidentiality"},
		},
		"hidden": {
			map[string]string{"proc/self/mountinfo": mountsHidden},
			Host{Release: "r", Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Mounts: true},
		},
		"empty": {nil, Host{Release: "r", Machine: elf.EM_X86_64, Class: elf.ELFCLASS64}},
	} {
		assert.Equal(t, c.want, recorded(c.files, nil).host("r", "x86_64"), name)
	}
}

// statusDocker is of a shell in a container of Docker, as the host sees it.
const statusDocker = `Name:	sh
Umask:	0022
State:	S (sleeping)
Tgid:	20117
Uid:	1000	1001	1002	1003
NSpid:	20117	7
CapPrm:	00000000a80425fb
CapEff:	00000000a80425fb
Seccomp:	2
Seccomp_filters:	1
`

func TestSelf(t *testing.T) {
	s := recorded(map[string]string{"proc/thread-self/status": statusDocker}, map[string]string{"proc/self": "7"}).self(7)
	assert.True(t, s.OwnProc, s)
	assert.Equal(t, 1001, s.UID, s)
	assert.Equal(t, uint64(0xa80425fb), s.Capabilities, s)
	assert.True(t, s.Seccomp, s)
	assert.False(t, s.has(38), s.Capabilities)
	assert.True(t, s.has(0), s.Capabilities)
	s.Capabilities |= 1 << 21
	assert.True(t, s.has(38), "CAP_SYS_ADMIN includes CAP_PERFMON and CAP_CHECKPOINT_RESTORE, but not CAP_SYS_PTRACE")
	assert.True(t, s.has(40), "CAP_SYS_ADMIN includes CAP_PERFMON and CAP_CHECKPOINT_RESTORE, but not CAP_SYS_PTRACE")
	assert.False(t, s.has(19), "CAP_SYS_ADMIN includes CAP_PERFMON and CAP_CHECKPOINT_RESTORE, but not CAP_SYS_PTRACE")
	// The host's /proc in a container, where the kernel takes other numbers.
	s = recorded(nil, map[string]string{"proc/self": "20117"}).self(7)
	assert.False(t, s.OwnProc, s)
	s = recorded(map[string]string{"proc/version": "Linux"}, nil).self(7)
	assert.False(t, s.OwnProc, s)
	assert.False(t, s.NoProc, s)
	assert.Equal(t, -1, s.UID, s)
	s = recorded(nil, nil).self(7)
	assert.True(t, s.NoProc, s)
}

func TestProcess(t *testing.T) {
	p := recorded(map[string]string{
		"proc/20117/status":  statusDocker,
		"proc/20117/stat":    "20117 (a) Z (b) S 1 2 3",
		"proc/20117/environ": "A=STAPSDT_DIR=no\x00STAPSDT_DIR=/probes\x00STAPSDT_DIR=/other\x00",
	}, map[string]string{
		"proc/20117/ns/pid":   "pid:[4026532301]",
		"proc/20117/ns/mnt":   "mnt:[4026532298]",
		"proc/20117/ns/other": "other:[1]",
	}).process(20117)
	want := Process{
		Alive: true, Name: "sh", UIDs: []int{1000, 1001, 1002, 1003}, Numbers: []int{20117, 7},
		Namespaces: Namespaces{PID: "pid:[4026532301]", Mount: "mnt:[4026532298]"}, Directory: "/probes",
	}
	assert.Equal(t, want, p)
	for stat, want := range map[string][2]bool{
		"": {}, "1 (x) Z 1": {}, "1 (x) X 1": {}, "1 (x": {}, "1 (x) ": {}, "1 (x) R 1": {true, false}, "1 (x) T 1": {true, true}, "1 (x) t 1": {true, true},
	} {
		p := recorded(map[string]string{"proc/1/stat": stat}, nil).process(1)
		assert.Equal(t, want[0], p.Alive, "%q: %+v", stat, p)
		assert.Equal(t, want[1], p.Stopped, "%q: %+v", stat, p)
	}
}
