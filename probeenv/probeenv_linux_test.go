//go:build !stapsdt_noload

package probeenv_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/wire"
	"github.com/go-stapsdt/stapsdt/probeenv"
	"github.com/go-stapsdt/stapsdt/proberec"
	"github.com/go-stapsdt/stapsdt/probesock"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain is also the programs whose environment is obeyed: see children.
func TestMain(m *testing.M) {
	if name := os.Getenv("PROBEENV_CHILD"); name != "" {
		children[name]()
		return
	}
	os.Exit(inDirectory(m))
}

// inDirectory runs the tests with a directory for the images of examples, unless there is one.
func inDirectory(m *testing.M) int {
	if os.Getenv("STAPSDT_DIR") == "" {
		dir, err := os.MkdirTemp("", "probeenv")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		os.Setenv("STAPSDT_DIR", dir)
	}
	return m.Run()
}

var (
	app  = stapsdt.NewProvider("app")
	tick = stapsdt.NewProbe2[string, int](app, "tick", "text", "n")
)

// children are programs. A test runs each in a process of its own.
var children = map[string]func(){
	"plain": func() {
		load()
		fire()
	},
	"LoadAll": func() {
		loadBy(stapsdt.LoadAll)
		fire()
	},
	"own recording before": func() {
		record()
		load()
		fire()
	},
	"own recording after": func() {
		load()
		tick.Fire("before", 0)
		record()
		fire()
	},
	"own recording of some": func() {
		load()
		record(app)
		fire()
	},
	"failed recording": func() {
		load()
		if _, err := proberec.Create("/proc/none", 1, app); err == nil {
			panic("created")
		}
		fire()
	},
	"own socket before": func() {
		listen()
		load()
		fire()
	},
	"own socket after": func() {
		load()
		listen()
		if _, err := probesock.Listen(); err == nil {
			panic("a program listens twice")
		}
		fire()
	},
	"own socket closed": func() {
		load()
		listen().Close()
		load()
		fire()
	},
	"socket of the environment closed": func() {
		listener, err := probesock.FromEnvironment()
		if again, _ := probesock.FromEnvironment(); err != nil || again.Path() != listener.Path() {
			panic(err)
		}
		listener.Close()
		load()
		fire()
	},
	"few descriptors": func() {
		// Package os, the timers and package net would start the runtime's poller.
		most, _ := strconv.Atoi(os.Getenv("PROBEENV_DESCRIPTORS"))
		limit := unix.Rlimit{Cur: uint64(most), Max: 100}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			panic(err)
		}
		proberec.New(1).Start()
		err := probeenv.Load()
		tick.Fire("first", 1)
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		if again := probeenv.Load(); again != nil {
			panic(fmt.Sprintf("with more descriptors: %v", again))
		}
		fmt.Println(strings.ReplaceAll(fmt.Sprint(err), "\n", "; "))
	},
	"closed standard files": closedStandardFiles,
	"page": func() {
		mux := http.NewServeMux()
		recorder, err := proberec.FromEnvironment()
		if err != nil {
			panic(err)
		}
		debugprobe.Mount(mux, recorder)
		load()
		tick.Fire("first", 1)
		for _, name := range []string{"probes.json", "recorder.json"} {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/debug/probes/"+name, nil))
			fmt.Println(w.Code, strings.ReplaceAll(w.Body.String(), "\n", " "))
		}
	},
}

// closedStandardFiles closes the standard files, and loads while goroutines print to their numbers and look at what is there.
func closedStandardFiles() {
	var ends [2]int // of the pipes to the test
	for i := range ends {
		ends[i], _ = unix.FcntlInt(uintptr(i), unix.F_DUPFD_CLOEXEC, 100)
	}
	for fd := range 3 {
		unix.Close(fd)
	}
	var writable, printed atomic.Int64 // descriptors that were seen, and attempts
	for fd := range 3 {
		go func() {
			for {
				flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				if err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY {
					writable.Store(int64(fd) + 1)
				}
				_, _ = unix.Write(fd, []byte("what a program prints\n"))
				printed.Add(1)
				runtime.Gosched()
			}
		}()
	}
	polls := 0
	for fd := range 100 {
		if name, _ := os.Readlink(fmt.Sprint("/proc/self/fd/", fd)); name == "anon_inode:[eventpoll]" {
			polls++
		}
	}
	err := probeenv.Load()
	tick.Fire("first", 1)
	_, _ = unix.Write(ends[1], fmt.Appendln(nil, "loaded:", err, polls))
	_, _ = unix.Read(ends[0], make([]byte, 1))
	_, _ = unix.Write(ends[1], fmt.Appendln(nil, "writable:", writable.Load(), printed.Load() > 0))
	_, _ = unix.Read(ends[0], make([]byte, 1))
}

func load() { loadBy(probeenv.Load) }

// loadBy loads twice, as a program may, and prints whether the probes are loaded, how many descriptors and goroutines there are, and the
// error.
func loadBy(load func() error) {
	err := load()
	// The sizes in an error may differ, such as the memory that is left.
	sizes := regexp.MustCompile(`\d+`)
	if again := load(); sizes.ReplaceAllString(fmt.Sprint(again), "N") != sizes.ReplaceAllString(fmt.Sprint(err), "N") {
		panic(fmt.Sprintf("%v, and the second time %v", err, again))
	}
	entries, _ := os.ReadDir("/proc/self/fd")
	fmt.Println(app.Loaded(), len(entries), testenv.Goroutines(), strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
}

func listen() *probesock.Listener {
	listener, err := probesock.Listen()
	if err != nil {
		panic(err)
	}
	return listener
}

func record(providers ...*stapsdt.Provider) {
	r, err := proberec.Create(os.Getenv("PROBEENV_OWN"), 1, providers...)
	if err != nil {
		panic(err)
	}
	r.Start()
}

// fire fires probes of two providers, one of which did not exist before, and waits.
func fire() {
	tick.Fire("first", 1)
	late := stapsdt.NewProbe1[int](stapsdt.NewProvider("late"), "tock", "n")
	late.Fire(2)
	fmt.Println("fired")
	io.Copy(io.Discard, os.Stdin)
}

// child is a process.
type child struct {
	*exec.Cmd
	*bufio.Reader
	in  io.Writer
	dir string // of its socket
}

// start starts a child.
func start(t *testing.T, name string, variables ...string) *child {
	c := &child{Cmd: exec.Command("/proc/self/exe"), dir: t.TempDir()}
	require.NoError(t, os.Chmod(c.dir, 0o700))
	c.Env = append(os.Environ(), append([]string{"PROBEENV_CHILD=" + name, "STAPSDT_DIR=" + c.dir}, variables...)...)
	c.Stderr = os.Stderr
	var err error
	c.in, err = c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.Reader = bufio.NewReader(out)
	require.NoError(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c
}

// line returns the next line that the child prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	return testenv.Line(t, c.Cmd, c.Reader)
}

// connect connects to the child's socket, or returns nil if it has none.
func (c *child) connect(t *testing.T) *wire.Client {
	t.Helper()
	sockets, err := filepath.Glob(c.dir + "/*.sock")
	require.NoError(t, err)
	if len(sockets) == 0 {
		return nil
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: sockets[0], Net: "unix"})
	require.NoError(t, err)
	client, err := wire.NewClient(conn, testenv.Patience)
	require.NoError(t, err)
	return client
}

// listed returns the probes that the child's socket shows, or nil if it has none.
func (c *child) listed(t *testing.T) (all []string) {
	t.Helper()
	client := c.connect(t)
	if client == nil {
		return nil
	}
	defer client.Close()
	probes, err := client.List()
	require.NoError(t, err)
	for _, p := range probes {
		all = append(all, p.Provider+":"+p.Name)
	}
	return all
}

// recorded returns the events of a recording.
func recorded(t *testing.T, path string) (all []string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for e := range eventtest.Events(t, eventtest.Read(t, f)) {
		all = append(all, eventtest.Text(e))
	}
	return all
}

// both are the events that fire fires.
var both = []string{"app:tick text=first n=1", "late:tock n=2"}

// TestNothingAsked: without the variables, a program has what LoadAll leaves it with, and nothing else.
func TestNothingAsked(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	want := start(t, "LoadAll", "STAPSDT_RECORD=/missing/deep/x.rec", "STAPSDT_SOCKET=1").line(t)
	require.True(t, strings.HasPrefix(want, "true ") && strings.HasSuffix(want, " 0 <nil>"), want)
	for _, variables := range [][]string{nil, {"STAPSDT_RECORD=", "STAPSDT_SOCKET="}, {"STAPSDT_SOCKET=0"}} {
		c := start(t, "plain", variables...)
		require.Equal(t, want, c.line(t))
		require.Equal(t, "fired", c.line(t))
		require.Empty(t, c.listed(t))
	}
}

// TestRecord: the variable records all providers, those that are defined later too, and the file survives the process.
func TestRecord(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	dir := t.TempDir()
	dir += "/made" // the last directory
	c := start(t, "plain", "STAPSDT_RECORD="+dir+"/a,%p-%p.rec,1M")
	require.True(t, strings.HasPrefix(c.line(t), "true "))
	require.Equal(t, "fired", c.line(t))
	require.NoError(t, c.Process.Kill())
	c.Wait()
	path := fmt.Sprintf("%s/a,%d-%[2]d.rec", dir, c.Process.Pid)
	require.Equal(t, both, recorded(t, path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, info.Size()&^(1<<20-1))
	info, err = os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
	require.Empty(t, c.listed(t))
}

// TestRefused: what cannot be obeyed is returned, and everything else is done.
func TestRefused(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	for value, want := range map[string]string{
		"/missing/deep/x.rec":             "proberec: create /missing/deep/x.rec: open /missing: no such file or directory",
		"/missing/%p/x.rec":               "no such file or directory",
		dir + "/x.rec":                    "proberec: create " + dir + "/x.rec: " + dir + ": other users may write to it",
		dir + "/x\x1b[31m\u0085\n.rec,1M": `proberec: STAPSDT_RECORD="` + dir + `/x\x1b[31m\u0085\n.rec,1M": the path has control characters`,
		",4M":                             "",
		"1":                               "",
		"0":                               "",
		"4096,1M":                         "",
		"true":                            "",
		"No,1M":                           "",
		"x.rec,":                          "",
		"x.rec,0":                         "",
		"x.rec,-1":                        "",
		"x.rec,K":                         "",
		"x.rec,1KK":                       "",
		"x.rec,1K":                        "",
		"x.rec,255K":                      "",
		"x.rec,262143":                    "",
		"x.rec,1025M":                     "",
		"x.rec,2G":                        "",
		"x.rec,1073741825":                "",
		"x.rec,9223372036854775807":       "",
		"x.rec,9223372036854775808":       "",
		"x.rec,18446744073709551615":      "",
		"x.rec,18446744073709551616":      "",
		"x.rec,8589934591G":               "",
		"x.rec,8589934592G":               "",
		"x.rec,17179869184G":              "",
		"x.rec,9007199254740992K":         "",
	} {
		c := start(t, "plain", "STAPSDT_SOCKET=1", "STAPSDT_RECORD="+value)
		line := c.line(t)
		require.True(t, strings.HasPrefix(line, "true "), line)
		if want == "" {
			want = fmt.Sprintf("proberec: STAPSDT_RECORD=%q: it must be FILE or FILE,SIZE, with a SIZE from 256K to 1G", value)
		}
		require.Contains(t, line, want, value)
		require.Equal(t, "fired", c.line(t))
		require.Equal(t, []string{"app:tick", "late:tock"}, c.listed(t))
	}
	require.Empty(t, testenv.Entries(dir))
	require.NoError(t, os.Chmod(dir, 0o700))
	for _, value := range []string{"true", "yes", "2", "1 ", "\x1b"} {
		c := start(t, "plain", "STAPSDT_SOCKET="+value)
		require.Contains(t, c.line(t), fmt.Sprintf("probesock: STAPSDT_SOCKET=%q: it must be 1 to listen, or 0", value))
		require.Equal(t, "fired", c.line(t))
		require.Empty(t, c.listed(t))
	}
	c := start(t, "plain", "STAPSDT_SOCKET=1", "STAPSDT_RECORD="+dir+"/beside", "STAPSDT_DIR=/dev/null")
	require.Contains(t, c.line(t), " probesock: STAPSDT_SOCKET=1: ")
	require.Equal(t, "fired", c.line(t))
	require.Equal(t, both, recorded(t, dir+"/beside"))
}

// TestFewDescriptors: a program with few descriptors left gets an error or what it has asked for, and runs on.
func TestFewDescriptors(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	for _, variables := range [][]string{{"STAPSDT_SOCKET=1"}, {"STAPSDT_RECORD=" + t.TempDir() + "/%p,256K"}} {
		for most := 3; most <= 16; most++ { // some for the goroutine that removes old sockets
			c := start(t, "few descriptors", append(variables, fmt.Sprint("PROBEENV_DESCRIPTORS=", most))...)
			said := c.line(t)
			require.NoError(t, c.Wait(), said)
			if most <= 5 {
				require.Contains(t, said, "start the runtime's poller: ")
			}
			if most == 16 {
				require.Equal(t, "<nil>", said)
			} else if said != "<nil>" {
				require.Contains(t, said, "too many open files")
			}
		}
	}
}

// TestClosedStandardFiles: a program that has closed its standard files never prints into a recording, to a watcher, to the tracer that has
// started it, or to the runtime's poller, which Load starts.
func TestClosedStandardFiles(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	dir, err := os.MkdirTemp("", "closed") // t.TempDir may be too long for an address
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/tracer", Net: "unix"})
	require.NoError(t, err)
	defer listener.Close()
	path := dir + "/recording"
	c := start(t, "closed standard files", "STAPSDT_RECORD="+path, "STAPSDT_SOCKET=1", "STAPSDT_TRACER="+dir+"/tracer")
	conn, err := listener.Accept()
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Equal(t, "loaded: <nil> 0", c.line(t))
	for range 10 {
		client := c.connect(t)
		memory, err := client.Watch(wire.Watch{Bytes: 1 << 20, Patterns: []wire.Pattern{{Provider: "*", Probe: "*"}}})
		require.NoError(t, err)
		require.NoError(t, client.End())
		memory.Close()
		require.NoError(t, client.Close())
	}
	_, err = c.in.Write([]byte{0})
	require.NoError(t, err)
	require.Equal(t, "writable: 0 true", c.line(t))
	require.NoError(t, c.Process.Kill())
	c.Wait()
	require.Equal(t, both[:1], recorded(t, path))
}

// TestOwnCallsWin: what the program asks for takes the place of what its environment asks for.
func TestOwnCallsWin(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	for name, want := range map[string]struct{ own, environment []string }{
		"own recording before":  {own: both},
		"own recording after":   {own: both, environment: []string{"app:tick text=before n=0"}},
		"own recording of some": {own: both[:1], environment: both},
		"failed recording":      {environment: both},
	} {
		dir := t.TempDir()
		c := start(t, name, "STAPSDT_RECORD="+dir+"/environment", "PROBEENV_OWN="+dir+"/own")
		require.Contains(t, c.line(t), "<nil>")
		require.Equal(t, "fired", c.line(t))
		for file, want := range map[string][]string{"own": want.own, "environment": want.environment} {
			if path := filepath.Join(dir, file); want == nil {
				require.NoFileExists(t, path, name)
			} else {
				require.Equal(t, want, recorded(t, path), name)
			}
		}
	}
	for name, want := range map[string][]string{
		"own socket before": {"app:tick", "late:tock"}, "own socket after": {"app:tick", "late:tock"}, "own socket closed": nil,
		"socket of the environment closed": nil,
	} {
		c := start(t, name, "STAPSDT_SOCKET=1")
		for c.line(t) != "fired" {
		}
		require.Equal(t, want, c.listed(t), name)
	}
}

// TestPage: a mux serves the page, with the recording that the environment asks for.
func TestPage(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	for variable, events := range map[string]int{"STAPSDT_RECORD=" + t.TempDir() + "/page": 1, "STAPSDT_RECORD=": 0} {
		c := start(t, "page", variable)
		require.Contains(t, c.line(t), "<nil>")
		require.Contains(t, c.line(t), `200 `)
		code, body, _ := strings.Cut(c.line(t), " ")
		if events == 0 {
			require.Equal(t, "404", code) // the page has no recorder
			continue
		}
		var event struct{ Args map[string]any }
		require.NoError(t, json.Unmarshal([]byte(body), &event))
		require.Equal(t, map[string]any{"text": "first", "n": 1.0}, event.Args)
	}
}

// TestSetUserID: a program that gained rights when it was started does not obey whoever has started it.
func TestSetUserID(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	testenv.NeedsRoot(t)
	dir, err := os.MkdirTemp("/tmp", "probeenv") // where others can execute a program
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	data, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/app", data, 0o755))
	require.NoError(t, os.Chmod(dir+"/app", 0o755|os.ModeSetuid))
	cmd := exec.Command(dir + "/app")
	cmd.Dir = "/"
	cmd.Env = []string{"PROBEENV_CHILD=plain", "STAPSDT_SOCKET=1", "STAPSDT_RECORD=" + dir + "/x.rec"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Regexp(t, `^true \d+ 0 <nil>\nfired\n$`, string(out))
	require.NoFileExists(t, dir+"/x.rec")
}

// TestPackages: the socket and the recorder bring neither package net nor another large one into a program.
func TestPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	testenv.Needs(t, "the go command", err)
	packages := strings.Fields(string(out))
	require.Contains(t, packages, "github.com/go-stapsdt/stapsdt/probesock")
	for _, name := range []string{"net", "context", "regexp", "encoding/json", "text/template"} {
		require.NotContains(t, packages, name)
	}
}
