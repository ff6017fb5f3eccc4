//go:build linux && (amd64 || arm64)

package clibrary

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/steptest"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestRecordings: what the C library records is what package recording and the command read.
func TestRecordings(t *testing.T) {
	program := build(t) + "/app"
	for name, test := range map[string]func(t *testing.T, program string){
		"values": testRecorded, "overtaken": testOvertaken, "clocks": testClocks, "killed": testKilled, "every instruction": testEveryInstruction,
		"refuses": testRecordRefuses, "own": testOwnRecording, "dlclose": testRecordDlclose, "set-user-ID": testRecordIgnored,
	} {
		t.Run(name, func(t *testing.T) { test(t, program) })
	}
}

// open returns a reader of a recording that has read what is there.
func open(t *testing.T, path string) *recording.Reader {
	t.Helper()
	f := tracetest.Must(os.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	r := tracetest.Must(recording.NewReader(f))(t)
	_ = tracetest.Must(r.More())(t)
	return r
}

// testRecorded: what the program fires is what package recording and the command read.
func testRecorded(t *testing.T, program string) {
	path := filepath.Join(t.TempDir(), "capp.rec")
	app := start(t, program, "STAPSDT_RECORD="+path+",1M", "values")

	head := open(t, path).Head()
	require.EqualValues(t, app.PID(), head.PID)
	require.NotZero(t, head.Start)
	require.NotZero(t, head.Boot)
	require.Equal(t, "app", filepath.Base(head.Executable))
	require.False(t, head.Ended)
	info := tracetest.Must(os.Stat(path))(t)
	require.Equal(t, os.ModeSticky|0o600, info.Mode())

	list := stapsdt(t, "list", "--from", path)
	require.Contains(t, list, "capp:numbers(u8 uint8, i8 int8, u16 uint16, i16 int16, u32 uint32, i32 int32, u64 uint64, i64 int64)")
	require.Contains(t, list, "capp:texts(path string, status int32, none string)")
	require.Contains(t, list, "capp:unnamed(arg0 uint64, arg1 int8)")
	trace := strings.Split(strings.TrimSpace(stapsdt(t, "trace", "--from", path, "capp:*")), "\n")[1:]
	for i, arguments := range []string{
		"u8=0 i8=-128 u16=0 i16=-32768 u32=0 i32=-2147483648 u64=0 i64=-9223372036854775808",
		"u8=255 i8=127 u16=65535 i16=32767 u32=4294967295 i32=2147483647 u64=18446744073709551615 i64=9223372036854775807",
		`path="/index" status=200 none="(null)"`,
		`xxx"… status=-1 none=""`,
		"arg0=1 arg1=-3",
	} {
		require.Contains(t, trace[i], strconv.Itoa(app.PID())+" app ")
		require.Truef(t, strings.HasSuffix(trace[i], arguments), "%s", trace[i])
	}
	require.Len(t, trace, 5)
	require.Equal(t, strings.Repeat("x", 4095), longest(t, open(t, path)))
	require.Regexp(t, `(?m)^ +1 +capp:texts +200$`, stapsdt(t, "count", "--from", path, "capp:texts", "--by", "status"))
}

// longest returns the longest text of capp:texts.
func longest(t *testing.T, r *recording.Reader) (text string) {
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return text
		}
		require.NoError(t, err)
		if e.Probe.Name == "texts" && len(e.Text(0)) > len(text) {
			text = string(e.Text(0))
		}
	}
}

// storm is what a reader knows of the events of the program's threads.
type storm struct {
	longest uint64 // text
	next    map[uint64]uint64
	tids    map[uint64]uint32
	seen    uint64
}

// letters begin with each text.
var letters = strings.Repeat("abcdefghijklmnopqrstuvwxyz", 200)

// read reads what there is, and requires that each event is whole and that those of each thread are in
// their order.
func (s *storm) read(t *testing.T, r *recording.Reader, pid int) {
	t.Helper()
	_, err := r.More()
	require.NoError(t, err)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		thread, n := e.Word(0), e.Word(1)
		require.Equal(t, (thread<<60^n)*0x9e3779b97f4a7c15, e.Word(2))
		require.Equal(t, letters[:n%(s.longest+1)], string(e.Text(3)))
		require.GreaterOrEqual(t, n, s.next[thread], "thread %d", thread)
		require.EqualValues(t, pid, e.PID)
		if _, ok := s.tids[thread]; !ok {
			s.tids[thread] = e.TID
		}
		require.NotZero(t, e.TID)
		require.Equal(t, s.tids[thread], e.TID)
		s.next[thread] = n + 1
		s.seen++
	}
}

func newStorm() *storm {
	return &storm{longest: 26, next: map[uint64]uint64{}, tids: map[uint64]uint32{}}
}

// testOvertaken: a reader that writers overtake all the time finds whole records only, and what it has seen and
// lost is what was fired.
func testOvertaken(t *testing.T, program string) {
	path := filepath.Join(t.TempDir(), "capp.rec")
	requireOvertaken(t, start(t, program, "STAPSDT_RECORD="+path+",1M", "storm", "4", "26"), open(t, path))
}

// testClocks is testOvertaken by each clock that a recording can have.
func testClocks(t *testing.T, program string) {
	if runtime.GOARCH != "amd64" {
		t.Skip("there is one clock here")
	}
	for source, clock := range map[string]recording.ClockKind{"tsc": recording.Counter, "kvm-clock": recording.Monotonic} {
		path := filepath.Join(t.TempDir(), "capp.rec")
		cmd := command(t, program, "STAPSDT_RECORD="+path+",1M", "storm", "4", "26")
		tracetest.ClockSource(t, cmd, source)
		app := tracetest.Command(t, cmd)
		require.Equal(t, "1", app.Expect("ready ", testenv.Patience))
		r := open(t, path)
		require.Equal(t, clock, r.Head().Clock)
		requireOvertaken(t, app, r)
	}
}

func requireOvertaken(t *testing.T, app *tracetest.Process, r *recording.Reader) {
	t.Helper()
	s := newStorm()
	for end := time.Now().Add(testenv.Patience); r.Lost() == 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // in which the writers may come around
		s.read(t, r, app.PID())
	}
	for range 20 {
		s.read(t, r, app.PID())
	}
	app.Hangup()
	fired := tracetest.Must(strconv.ParseUint(app.Expect("fired ", testenv.Patience), 10, 64))(t)
	s.read(t, r, app.PID())
	t.Logf("%d events, of which the reader has seen %d", fired, s.seen)
	require.Equal(t, fired, s.seen+r.Lost())
	require.NotZero(t, r.Lost(), "the reader was never overtaken")
	require.Len(t, s.tids, 4)
}

// testKilled: a process that is killed while it records leaves whole records, and its next run keeps them.
func testKilled(t *testing.T, program string) {
	path := filepath.Join(t.TempDir(), "capp.rec")
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	seen := uint64(0)
	for range rounds {
		app := start(t, program, "STAPSDT_RECORD="+path+",1M", "storm", "4", "26")
		r, s := open(t, path), newStorm()
		require.Eventually(t, func() bool { s.read(t, r, app.PID()); return s.seen > 0 }, testenv.Patience, time.Millisecond)
		time.Sleep(rand.N(20 * time.Millisecond))
		app.Signal(syscall.SIGKILL)
		_ = app.Wait(testenv.Patience)
		r, s = open(t, path), newStorm()
		s.read(t, r, app.PID())
		fired := uint64(0)
		for _, n := range s.next {
			fired += n
		}
		require.False(t, r.Head().Ended)
		require.Positive(t, s.seen)
		require.GreaterOrEqual(t, s.seen+r.Lost(), fired)
		seen += s.seen
	}
	kept := tracetest.Must(filepath.Glob(path + "-*"))(t)
	require.Len(t, kept, min(rounds-1, 5))
	t.Logf("%d kills left %d events", rounds, seen)
}

// testEveryInstruction: whenever the process is killed, its recording has whole records, and the numbers of those that are seen and
// lost are right.
func testEveryInstruction(t *testing.T, program string) {
	testenv.NotEmulated(t, "it traces its process")
	path := filepath.Join(t.TempDir(), "capp.rec")
	app := start(t, program, "STAPSDT_RECORD="+path+",1M", "storm", "1", "4000") // long texts, so that chunks are soon full
	f := tracetest.Must(os.Open(path))(t)
	defer f.Close()
	read := func() *storm {
		r, s := tracetest.Must(recording.NewReader(f))(t), newStorm()
		s.longest = 4000
		s.read(t, r, app.PID())
		s.seen += r.Lost()
		return s
	}
	tid := uint32(0)
	require.Eventually(t, func() bool { tid = read().tids[0]; return tid != 0 }, testenv.Patience, time.Millisecond)
	steptest.EachInstruction(t, int(tid), func() uint64 {
		s := read()
		require.Equal(t, s.next[0], s.seen)
		return s.seen
	})
}

// testOwnRecording: what the program asks for takes the place of what its environment asks for.
func testOwnRecording(t *testing.T, program string) {
	dir := t.TempDir()
	app := start(t, program, "STAPSDT_RECORD="+dir+"/environment", "listen")
	tell := func(what, answer string) {
		t.Helper()
		app.Say(what)
		require.Equal(t, answer, app.Expect(strings.Fields(what)[0]+"s ", testenv.Patience))
	}
	fire := func() { app.Say("fire 2"); app.Expect("done", testenv.Patience) }
	fire()
	tell("record "+dir+"/own", "0")
	fire()
	fire()
	tell("record "+dir+"/other", fmt.Sprintf("-1record to %s/other: the process records to %[1]s/own already", dir))
	for file, want := range map[string]uint64{"environment": 2, "own": 4} {
		require.Equal(t, want, count(t, open(t, filepath.Join(dir, file))))
	}
	app.Hangup()
	require.NoError(t, app.Wait(testenv.Patience))
	require.NotContains(t, app.Dump(), "stapsdt: ")
}

// testRecordDlclose: a program that closes the library while it records goes on, and so does the recording. So does that of each
// child of Python's multiprocessing.
func testRecordDlclose(t *testing.T, program string) {
	testenv.NeedsTool(t, "python3", "python3")
	dir := t.TempDir()
	cmd := exec.Command("python3", "-c", `
import ctypes, _ctypes, multiprocessing, sys
library = ctypes.CDLL(sys.argv[1])
library.providerInit.restype = library.providerAddProbe.restype = ctypes.c_void_p
provider = library.providerInit(b"python")
probe = library.providerAddProbe(ctypes.c_void_p(provider), b"event", 1, 4)
assert library.providerLoad(ctypes.c_void_p(provider)) == 0
fire = library.probeFire
def work(n):
    for i in range(n):
        fire(ctypes.c_void_p(probe), ctypes.c_uint32(i))
for _ in range(3):
    _ctypes.dlclose(library._handle)
work(3)
children = [multiprocessing.get_context("fork").Process(target=work, args=(n,)) for n in (5, 7)]
for child in children:
    child.start()
for child in children:
    child.join()
print("done", *[child.pid for child in children], flush=True)`, filepath.Dir(program)+"/out/libstapsdt.so.0")
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+dir, "STAPSDT_RECORD="+dir+"/%p.rec,1M")
	app := tracetest.Command(t, cmd)
	pids := strings.Fields(app.Expect("done ", testenv.Patience))
	require.NoError(t, app.Wait(testenv.Patience))
	for pid, want := range map[string]uint64{strconv.Itoa(app.PID()): 3, pids[0]: 5, pids[1]: 7} {
		require.Equal(t, want, count(t, open(t, filepath.Join(dir, pid+".rec"))))
	}
}

// testRecordRefuses: a program whose variable cannot be obeyed runs on, and says why.
func testRecordRefuses(t *testing.T, program string) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	refuses := func(variable, want string) {
		t.Helper()
		app := tracetest.Command(t, command(t, program, variable, "values"))
		require.Equal(t, "0", app.Expect("ready ", testenv.Patience), variable)
		app.Hangup()
		require.NoError(t, app.Wait(testenv.Patience))
		require.Contains(t, app.Dump(), "stapsdt: "+want)
	}
	for value, want := range map[string]string{
		dir + "/capp.rec":              "record to " + dir + ": other users may write to it, and could replace a recording",
		dir + "/missing/deep/capp.rec": "record to " + dir + "/missing: No such file or directory",
	} {
		refuses("STAPSDT_RECORD="+value, want)
	}
	for _, value := range []string{
		"/dev/shm/capp.rec,12x", "/dev/shm/capp.rec,", ",4M", "1", "0", "4096,1M", "true", "No,1M", "/dev/shm/capp.rec,1K", "/dev/shm/capp.rec,255K",
		"/dev/shm/capp.rec,1073741825", "/dev/shm/capp.rec,2G", "/dev/shm/capp.rec,9223372036854775807", "/dev/shm/capp.rec,9223372036854775808",
		"/dev/shm/capp.rec,18446744073709551616", "/dev/shm/capp.rec,8589934592G", "/dev/shm/capp.rec,17179869184G",
	} {
		refuses("STAPSDT_RECORD="+value, "STAPSDT_RECORD="+value+": it must be FILE or FILE,SIZE, with a SIZE from 256K to 1G")
	}
	refuses("STAPSDT_RECORD=/dev/shm/capp.rec\x1b[31m\u009b\n\u00e9", `STAPSDT_RECORD=/dev/shm/capp.rec\x1b[31m\xc2\x9b\x0aé: the path has control characters`)
	refuses("STAPSDT_SOCKET=yes\r", `STAPSDT_SOCKET=yes\x0d: it must be 1 to listen, or 0`)
	refuses("STAPSDT_SOCKET=true", "STAPSDT_SOCKET=true: it must be 1 to listen, or 0")
	require.NoFileExists(t, "/dev/shm/capp.rec")
}

// testRecordIgnored: a program with the privileges of another user ignores the variable, as it ignores those of the
// dynamic loader.
func testRecordIgnored(t *testing.T, program string) {
	testenv.NeedsRoot(t)
	owned, err := os.MkdirTemp("/tmp", "clibrary") // where others can execute it
	require.NoError(t, err)
	defer os.RemoveAll(owned)
	require.NoError(t, os.Chmod(owned, 0o755))
	require.NoError(t, os.WriteFile(owned+"/app", read(t, program), 0o755))
	require.NoError(t, os.Chmod(owned+"/app", 0o755|os.ModeSetuid))
	path := filepath.Join(owned, "capp.rec")
	cmd := command(t, owned+"/app", fmt.Sprintf("STAPSDT_RECORD=%s", path), "values")
	cmd.Env = append(cmd.Env, "STAPSDT_SOCKET=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	app := tracetest.Command(t, cmd)
	require.Equal(t, "0", app.Expect("ready ", testenv.Patience))
	require.NoFileExists(t, path)
	sockets, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", app.PID()))
	require.NoError(t, err)
	require.NotContains(t, string(sockets), fmt.Sprintf("/%d-", app.PID()))
}

func read(t *testing.T, path string) []byte {
	data := tracetest.Must(os.ReadFile(path))(t)
	return data
}
