//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInnermost: the path of a control group names the innermost container.
func TestInnermost(t *testing.T) {
	inner, outer := strings.Repeat("0123456789abcdef", 4), strings.Repeat("f", 64)
	for path, want := range map[string]string{
		"/": "",
		"/system.slice/docker-" + inner + ".scope":                                     inner,
		"/docker/" + inner:                                                             inner,
		"/docker/" + outer + "/docker/" + inner + "/init":                              inner,
		"/kubepods.slice/kubepods-burstable.slice/cri-containerd-" + inner + ".scope":  inner,
		"/kubepods/besteffort/pod3b6e6d3c-4a0e-4b43-8f5c-5a6d3b6e6d3c/" + inner:        inner,
		"/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:" + inner: inner,
		"/machine.slice/libpod-" + inner + ".scope/container":                          inner,
		"/system.slice/ssh.service":                                                    "",
		"/user.slice/" + inner + "0":                                                   "",
		"/user.slice/" + strings.ToUpper(inner):                                        "",
	} {
		assert.Equal(t, want, innermost(path), path)
	}
}

func none(uint64) string { return "" }

// groupsIn returns the groups below a directory, on a machine with the links in another.
func groupsIn(root, links string, made func(uint64) string) *Groups {
	return &Groups{root: root, made: made, pods: NewPods(links), known: map[uint64]*group{}}
}

// TestGone: of a group that is gone before it was looked at, the kernel says which it was, or
// nothing does.
func TestGone(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	g := groupsIn(t.TempDir(), "/nonexistent", func(group uint64) string {
		return map[uint64]string{1 << 40: "/docker/" + id, 1<<40 + 1: "/system.slice"}[group]
	})
	container := func(group uint64) string {
		c, pending := g.Container(group, time.Now())
		assert.False(t, pending, "on a machine without pods")
		return c.ID
	}
	for group, want := range map[uint64]string{1 << 40: id, 1<<40 + 1: "", 1<<40 + 2: Unknown} {
		for range 2 {
			assert.Equal(t, want, container(group), group)
		}
	}
	g.root = ""
	assert.Empty(t, container(1<<40+3), "without groups of version 2")
}

// TestGroups: the group of this process has the number that its directory has.
func TestGroups(t *testing.T) {
	g := New(none, NewPods(Links))
	if g.root == "" {
		t.Log("there are no control groups of version 2, which is all that can be seen")
		return
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	path := ""
	for line := range strings.Lines(string(own)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	for id, p := range g.All() {
		if p == path && g.at(id, time.Now()).path == path {
			return
		}
	}
	assert.Fail(t, "the own group is not among the groups", path)
}

func TestFindRoot(t *testing.T) {
	mounts := "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nbroken\n"
	assert.Equal(t, "/sys/fs/cgroup/unified", findRoot(mounts))
	assert.Empty(t, findRoot(""))
}

// TestPathStays: a group that is new is known at once, and one that is not known stays so.
func TestPathStays(t *testing.T) {
	g := groupsIn(t.TempDir(), "/nonexistent", none)
	makes := func(name string) (id uint64) {
		path := filepath.Join(g.root, name)
		require.NoError(t, os.Mkdir(path, 0o700))
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Sys().(*syscall.Stat_t).Ino
	}
	for _, name := range []string{"a", "b"} { // the second one just after the others were read
		assert.Equal(t, "/"+name, g.at(makes(name), time.Now()).path, name)
	}
	was := time.Now().Add(-time.Hour)
	c := makes("c") // after what is asked for
	assert.Empty(t, g.at(c, was).path)
	assert.Empty(t, g.at(c, time.Now()).path, "it was unknown, and has become")
}
