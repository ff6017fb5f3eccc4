//go:build linux

package doctor

import (
	"fmt"
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

// TestHost: the machine is what the files of /sys say.
func TestHost(t *testing.T) {
	const devices, lockdown = "sys/bus/event_source/devices/", "sys/kernel/security/lockdown"
	for name, c := range map[string]struct {
		files map[string]string
		want  Host
	}{
		"Debian 12": {map[string]string{lockdown: "none [integrity] confidentiality\n", devices + "uprobe/type": "9\n"}, Host{Uprobes: UprobesThere, Lockdown: "integrity"}},
		"gVisor":    {map[string]string{devices + "cpu/type": "4\n"}, Host{Uprobes: UprobesMissing}},
		"no sysfs":  {map[string]string{lockdown: "none integrity [confidentiality]"}, Host{Lockdown: "confidentiality"}},
		"empty":     {nil, Host{}},
	} {
		assert.Equal(t, c.want, recorded(c.files, nil).host(), name)
	}
}

// statusDocker is of a shell in a container of Docker, as the host sees it.
const statusDocker = `Name:	sh: State: Z
Umask:	0022
State:	S (sleeping)
Tgid:	20117
Uid:	1000	1001	1002	1003
CapEff:	00000000a80425fb
Seccomp:	2
Seccomp_filters:	1
`

func TestSelf(t *testing.T) {
	s := recorded(map[string]string{"proc/thread-self/status": statusDocker, "proc/version": "Linux"}, map[string]string{
		"proc/self": "7", "proc/7/ns/pid": "pid:[4026532301]", "proc/7/ns/user": "user:[4026532999]",
	})
	assert.Equal(t, Self{UID: 1001, Seccomp: true, InPIDNamespace: true, InUserNamespace: true, OwnProc: true, NoProc: false}, s.self(7))
	assert.False(t, s.self(8).OwnProc, "the host's /proc in a container, where the kernel takes other PIDs")
	initial := recorded(map[string]string{"proc/version": "Linux"}, map[string]string{"proc/self/ns/pid": initialPID, "proc/self/ns/user": initialUser})
	assert.Equal(t, Self{UID: -1}, initial.self(7))
	assert.Equal(t, Self{UID: -1, NoProc: true, InPIDNamespace: true}, recorded(nil, nil).self(7))
}

func TestProcess(t *testing.T) {
	p := recorded(map[string]string{
		"proc/20117/status":  statusDocker,
		"proc/20117/environ": "A=STAPSDT_DIR=no\x00STAPSDT_DIR=/probes\x00STAPSDT_DIR=/other\x00",
	}, nil).process(20117)
	assert.Equal(t, Process{Alive: true, Name: "sh: State: Z", UID: 1001, Directory: "/probes"}, p)
	asks := func(environment string) (p Process, invalid string) {
		p = recorded(map[string]string{"proc/1/environ": environment}, nil).process(1)
		return p, fmt.Sprint(p.Invalid)
	}
	for environment, want := range map[string]string{
		"STAPSDT_SOCKET=1\x00STAPSDT_RECORD=/dev/shm/%p.rec,1M\x00":            "[]",
		"STAPSDT_SOCKET=1\x00STAPSDT_RECORD=\x00":                              "[]",
		"STAPSDT_SOCKET=true\x00STAPSDT_SOCKET=1\x00STAPSDT_RECORD=1,\x1b\x00": `[STAPSDT_SOCKET="true": it must be 1 to listen, or 0 STAPSDT_RECORD="1,\x1b": it must be FILE or FILE,SIZE, with a SIZE from 256K to 1G]`,
	} {
		p, invalid := asks(environment)
		assert.True(t, p.Asked)
		assert.Equal(t, want, invalid)
	}
	p, _ = asks("STAPSDT_SOCKET=0\x00STAPSDT_SOCKETS=1\x00")
	assert.False(t, p.Asked)
	for state, want := range map[string]Process{
		"": {}, "Z (zombie)": {}, "X (dead)": {}, "R (running)": {Alive: true}, "T (stopped)": {Alive: true, Stopped: true}, "t (tracing stop)": {Alive: true, Stopped: true},
	} {
		want.UID = -1
		assert.Equal(t, want, recorded(map[string]string{"proc/1/status": "State:\t" + state + "\n"}, nil).process(1), state)
	}
}
