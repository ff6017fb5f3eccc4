//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

const (
	shopUID   = "3b6e6d3c-4a0e-4b43-8f5c-5a6d3b6e6d3c"
	otherUID  = "11111111-4a0e-4b43-8f5c-5a6d3b6e6d3c"
	staticUID = "8f4b8f2a0123456789abcdef01234567"
)

func digits(of string) string { return strings.Repeat(of, 64/len(of)) }

// addLink makes a link as the kubelet does (legacyLogSymlink and logSymlink in pkg/kubelet/kuberuntime).
func addLink(t *testing.T, dir, namespace, pod, uid, container, id string) (name string) {
	name = pod + "_" + namespace + "_" + container + "-" + id
	if len(name) > 255-len(".log") {
		name = name[:255-len(".log")]
	}
	name += ".log"
	target := fmt.Sprintf("/var/log/pods/%s_%s_%s/%s/0.log", namespace, pod, uid, container)
	require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	return name
}

// TestFind: drivers and runtimes name the groups of a container in their own ways.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	app, init, debug, host, static, forged := digits("0123456789abcdef"), digits("1"), digits("2"), digits("3"), digits("4"), digits("5")
	addLink(t, dir, "shop", "web-0", shopUID, "app", app)
	addLink(t, dir, "shop", "web-0", shopUID, "init-db", init)
	addLink(t, dir, "shop", "web-0", shopUID, "debugger-x7x2p", debug)
	addLink(t, dir, "kube-system", "proxy", otherUID, "proxy", host) // with hostNetwork
	addLink(t, dir, "kube-system", "etcd-node1", staticUID, "etcd", static)
	web := func(name, id string) Container { return Container{id, "shop", "web-0", shopUID, name} }
	systemd := strings.ReplaceAll(shopUID, "-", "_")
	p := NewPods(dir)
	assert.True(t, p.Refresh())
	assert.True(t, p.Here() && p.Any())
	for path, want := range map[string]Container{
		// version 2 and the unified hierarchy of hybrid, whose paths are the same
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + systemd + ".slice/cri-containerd-" + app + ".scope":       web("app", app),
		"/kubepods.slice/kubepods-pod" + systemd + ".slice/crio-" + app + ".scope":                                                    web("app", app), // guaranteed
		"/kubepods.slice/kubepods-pod" + systemd + ".slice/crio-" + app + ".scope/container":                                          web("app", app), // by crun
		"/kubepods/besteffort/pod" + shopUID + "/" + app:                                                                              web("app", app),
		"/kubepods/besteffort/pod" + shopUID + "/crio-" + app:                                                                         web("app", app),
		"/kubepods/pod" + shopUID + "/" + init:                                                                                        web("init-db", init),
		"/kubepods/burstable/pod" + shopUID + "/" + debug:                                                                             web("debugger-x7x2p", debug),
		"/system.slice/containerd.service/kubepods-burstable-pod" + systemd + ".slice:cri-containerd:" + app:                          web("app", app), // drivers that differ
		"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort-pod" + systemd + ".slice/cri-containerd-" + app + ".scope": web("app", app), // kind
		"/docker/" + digits("6") + "/kubepods/pod" + shopUID + "/" + app:                                                              web("app", app), // a node in a container
		"/kubepods/besteffort/pod" + otherUID + "/" + host:                                                                            {host, "kube-system", "proxy", otherUID, "proxy"},
		"/kubepods/burstable/pod" + staticUID + "/" + static:                                                                          {static, "kube-system", "etcd-node1", staticUID, "etcd"},
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + staticUID + ".slice/crio-" + static + ".scope":            {static, "kube-system", "etcd-node1", staticUID, "etcd"},
		// groups that a container has made
		"/kubepods/pod" + shopUID + "/" + app + "/" + host:                                      web("app", app),
		"/kubepods/pod" + shopUID + "/" + app + "/kubepods/pod" + otherUID + "/" + host:         web("app", app),
		"/kubepods/pod" + shopUID + "/" + forged + "/" + host:                                   {}, // whose own link is not there yet
		"/kubepods/pod" + shopUID + "/" + forged + "/kubepods/pod" + otherUID + "/" + host:      {},
		"/user.slice/user-1000.slice/user@1000.service/kubepods/pod" + shopUID + "/" + app:      {},
		"/kubepods.slice/kubepods-pod" + systemd + ".slice/cri-containerd-" + forged + ".scope": {},
		"/system.slice/docker-" + forged + ".scope":                                             {},
		"/": {},
	} {
		got, ok := p.Find(path)
		assert.Equal(t, want, got, path)
		assert.Equal(t, want != Container{}, ok, path)
	}
}

// TestFindCut: of a name that is too long, the ID is cut, or lost with a part of the container's name.
func TestFindCut(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("p", 200)
	one, two, three := digits("a"), digits("b"), digits("c")
	addLink(t, dir, "shop", long, shopUID, "app", one)
	addLink(t, dir, "shop", long, shopUID, "sidecar", two)
	lost := strings.Repeat("q", 240)
	addLink(t, dir, "shop", lost, otherUID, "app", three)
	p := NewPods(dir)
	p.Refresh()
	for path, want := range map[string]Container{
		"/kubepods/pod" + shopUID + "/" + one:    {one, "shop", long, shopUID, "app"},
		"/kubepods/pod" + shopUID + "/" + two:    {two, "shop", long, shopUID, "sidecar"},
		"/kubepods/pod" + otherUID + "/" + three: {three, "shop", lost, otherUID, "app"},
		"/kubepods/pod" + shopUID + "/" + three:  {},
		"/" + one:                                {},
	} {
		got, _ := p.Find(path)
		assert.Equal(t, want, got, path)
	}
	addLink(t, dir, "shop", lost, otherUID, "second-container-x", digits("d"))
	p.read = time.Time{}
	assert.True(t, p.Refresh())
	got, ok := p.Find("/kubepods/pod" + otherUID + "/" + three)
	assert.True(t, ok)
	assert.Equal(t, Container{three, "shop", lost, otherUID, ""}, got, "the pod is known, and the container is not")
}

// TestParseLink: a link that is not the kubelet's names nothing.
func TestParseLink(t *testing.T) {
	id := digits("e")
	target := "/var/log/pods/shop_web_" + shopUID + "/app/0.log"
	c, ok := parseLink("web_shop_app-"+id+".log", target)
	assert.True(t, ok)
	assert.Equal(t, Container{id, "shop", "web", shopUID, "app"}, c)
	for _, name := range []string{"web_shop_app-" + id, "web_shop_app-.log", "web_shop_app-" + id[1:] + ".log", "web_shop_app-" + id + "0.log", "other_shop_app-" + id + ".log", ".log"} {
		_, ok := parseLink(name, target)
		assert.False(t, ok, name)
	}
	for _, target := range []string{"", "/", "x", "/var/log/pods/shop_web/app/0.log", "/var/log/pods/a_b_c_d/app/0.log"} {
		_, ok := parseLink("web_shop_app-"+id+".log", target)
		assert.False(t, ok, target)
	}
}

// TestPodsRefresh: links come and go, and one that is gone is still known.
func TestPodsRefresh(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "containers")
	p := NewPods(dir)
	assert.False(t, p.Refresh(), "there is no directory")
	assert.False(t, p.Here())
	require.NoError(t, os.Mkdir(dir, 0o755))
	assert.False(t, p.Refresh())
	assert.True(t, p.Here())
	path := "/kubepods/pod" + shopUID + "/" + digits("a")
	name := addLink(t, dir, "shop", "web", shopUID, "app", digits("a")) // just after the directory was read
	assert.True(t, p.Refresh())
	_, ok := p.Find(path)
	assert.True(t, ok)
	require.NoError(t, os.Remove(filepath.Join(dir, name)))
	assert.True(t, p.Refresh())
	_, ok = p.Find(path)
	assert.True(t, ok, "its container has ended, and its events may be asked for")
	assert.False(t, p.Any())
	assert.False(t, p.Refresh())
}

// TestPending: the link of a new container is waited for, and what was decided stays.
func TestPending(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	named, late, plain := digits("a"), digits("b"), digits("c")
	g := groupsIn(root, dir, func(id uint64) string {
		return map[uint64]string{
			1 << 40: "/kubepods/pod" + shopUID + "/" + named, 1<<40 + 1: "/kubepods/pod" + shopUID + "/" + late, 1<<40 + 2: "/system.slice/docker-" + plain + ".scope",
			1<<40 + 3: "/system.slice/ssh.service",
		}[id]
	})
	at := func(group uint64) (Container, bool) { return g.Container(group, time.Now()) }
	for group := uint64(1 << 40); group < 1<<40+2; group++ {
		_, pending := at(group)
		assert.True(t, pending, "its link may come")
	}
	for group := uint64(1<<40 + 2); group < 1<<40+4; group++ {
		_, pending := at(group)
		assert.False(t, pending, "what is in no pod has no link")
	}
	addLink(t, dir, "shop", "web", shopUID, "app", named)
	c, pending := at(1 << 40)
	assert.False(t, pending)
	assert.Equal(t, "shop/web/app", c.Path())
	_, pending = at(1<<40 + 1)
	assert.True(t, pending)
	g.known[1<<40+1].seen = time.Now().Add(-linkDelay)
	c, pending = at(1<<40 + 1)
	assert.False(t, pending)
	assert.Equal(t, Container{ID: late}, c)
	addLink(t, dir, "shop", "web", shopUID, "late", late)
	c, _ = at(1<<40 + 1)
	assert.Equal(t, Container{ID: late}, c, "its events were shown under its ID")
	c, _ = at(1<<40 + 2)
	assert.Equal(t, Container{ID: plain}, c)
	g.known[1<<40+1].decided, g.known[1<<40+1].path = false, "/kubepods/pod"+otherUID+"/"+digits("d")
	g.known[1<<40+1].seen = time.Now()
	g.End()
	_, pending = at(1<<40 + 1)
	assert.False(t, pending, "nothing is shown later")
}

// TestKnownBound: groups that are gone are forgotten if they are many and were not asked for.
func TestKnownBound(t *testing.T) {
	g := groupsIn(t.TempDir(), "/nonexistent", none)
	for id := range uint64(maxKnown + 1) {
		g.add(id+1<<40, "/gone")
	}
	g.Container(1<<40, time.Time{})
	g.All()
	assert.Len(t, g.known, 2, "the one that was asked for, and the root")
}

// TestPattern: a pattern selects by each name, and says what it takes.
func TestPattern(t *testing.T) {
	app := Container{Namespace: "shop", Pod: "web-0", Name: "app"}
	for text, want := range map[string]bool{
		"shop/web-0": true, "shop/web-*": true, "*/*": true, "shop/web-0/app": true, "shop/web-0/a*": true,
		"shop/web": false, "shop/web-1": false, "shops/web-0": false, "shop/web-0/sidecar": false,
	} {
		p, err := query.ParsePodPattern(text)
		require.NoError(t, err, text)
		assert.Equal(t, text, p.String())
		assert.Equal(t, want, app.Matches(p), text)
		assert.False(t, (&Container{ID: digits("a")}).Matches(p), "a container that is in no pod")
	}
	for _, text := range []string{"", "shop", "shop/", "/web", "a/b/c/d", "a/b/", "a/[", "//"} {
		_, err := query.ParsePodPattern(text)
		assert.Error(t, err, text)
	}
}
