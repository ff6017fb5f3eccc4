//go:build linux

package clean

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func environment(of map[string]string) func(string) string {
	return func(name string) string { return of[name] }
}

// TestDirectories: clean looks where a program with this environment keeps its images.
func TestDirectories(t *testing.T) {
	const uid = 1000
	shared := Directory{Path: "/tmp", Shared: true, Owner: uid}
	for _, c := range []struct {
		env  map[string]string
		want []Directory
	}{
		{nil, []Directory{{Path: "/tmp/stapsdt-1000", Owner: uid}, shared}},
		{
			map[string]string{"STAPSDT_DIR": "images", "XDG_RUNTIME_DIR": "/run/user/1000", "TMPDIR": "/var/tmp"},
			[]Directory{{Path: "images", Owner: uid}, {Path: "/run/user/1000/stapsdt", Owner: uid}, {Path: "/var/tmp/stapsdt-1000", Owner: uid}, shared},
		},
		{map[string]string{"XDG_RUNTIME_DIR": "relative", "TMPDIR": "relative"}, []Directory{{Path: "/tmp/stapsdt-1000", Owner: uid}, shared}},
	} {
		assert.Equal(t, c.want, Directories(environment(c.env), uid), c.env)
	}
	all := AllDirectories(environment(nil), uid)
	if assert.GreaterOrEqual(t, len(all), 2) {
		assert.Equal(t, Directory{Path: "/tmp", Shared: true, Owner: -1}, all[1])
	}
	for path, owner := range map[string]string{
		"/tmp/stapsdt-12": "12", "/run/user/12/stapsdt": "12", "/tmp/stapsdt-12x": "", "/tmp/stapsdt-test": "", "/run/user/x/stapsdt": "", "/home/run/user/12/stapsdt": "",
	} {
		m := ownDirectory.FindStringSubmatch(path)
		assert.Equal(t, owner, strings.Join(m[min(1, len(m)):], ""), path)
	}
}

// TestHidden: when /proc may not show all processes. The options are those of systems on which
// they were set.
func TestHidden(t *testing.T) {
	const initial, shown = "pid:[4026531836]", "20 1 0:5 / /proc rw,relatime - proc proc rw\n"
	hides := func(option string) string {
		return "21 1 0:5 / /proc rw,relatime shared:2 - proc proc rw," + option + "\n"
	}
	for _, c := range []struct {
		own       string
		namespace string
		info      string
		ptrace    bool
		want      string
	}{
		{"7", initial, shown, false, ""},
		{"7", initial, hides("gid=4,hidepid=0"), false, ""},
		{"7", initial, hides("hidepid=off"), false, ""},
		{"7", initial, hides("gid=4,hidepid=2"), false, "hidepid"},
		{"7", initial, hides("hidepid=invisible"), false, "hidepid"},
		{"7", initial, hides("hidepid=ptraceable,subset=pid"), false, "hidepid"},
		{"7", initial, hides("hidepid=invisible"), true, ""},
		{"7", initial, shown + hides("hidepid=2"), false, "hidepid"},
		{"7", initial, hides("hidepid=2") + shown, false, ""},
		{"7", initial, "", true, "the options of /proc"},
		{"7", "pid:[4026532301]", shown, true, "not the initial PID namespace"},
		{"7", "", shown, true, "not the initial PID namespace"},
		{"20117", initial, shown, true, "not that of this PID namespace"},
		{"", "", "", true, "not that of this PID namespace"},
	} {
		got := hidden(c.own, 7, c.namespace, c.info, c.ptrace)
		assert.Equal(t, c.want == "", got == "", c)
		assert.Contains(t, got, c.want, c)
	}
}

func TestUnreadable(t *testing.T) {
	err := errors.New("process 1: open /proc/1/maps: input/output error")
	assert.Equal(t, err.Error(), unreadable(1, err))
}

// TestReplacedMeanwhile: a file that is another one when it is moved aside keeps its name.
func TestReplacedMeanwhile(t *testing.T) {
	directory := t.TempDir()
	dir, err := os.Open(directory)
	require.NoError(t, err)
	defer dir.Close()
	c := &cleaner{dir: int(dir.Fd()), path: directory}
	write := func() {
		require.NoError(t, os.WriteFile(directory+"/file", nil, 0o600))
	}
	write()
	var old unix.Stat_t
	require.NoError(t, unix.Stat(directory+"/file", &old))
	require.NoError(t, os.Rename(directory+"/file", directory+"/old")) // so that the inode is not used again
	write()
	_, err = c.moveAside("file", &old)
	assert.ErrorContains(t, err, "replaced meanwhile")
	_, err = os.Stat(directory + "/file")
	assert.NoError(t, err)
	// Another process has made the file again: what was moved aside stays there.
	aside, err := c.moveAside("old", &old)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(directory+"/old", nil, 0o600))
	assert.NoError(t, c.moveBack(aside, "old"))
	for _, name := range []string{"old", asidePrefix + "old"} {
		_, err := os.Stat(directory + "/" + name)
		assert.NoError(t, err)
	}
}
