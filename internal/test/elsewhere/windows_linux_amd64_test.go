package elsewhere

import (
	"bytes"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// wine is an installation of Windows.
type wine struct {
	t   *testing.T
	env []string
	dir string // for files
}

func newWine(t *testing.T) *wine {
	testenv.NeedsTool(t, "wine", "wine")
	compiler := testenv.NeedsTool(t, "x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64")
	w := &wine{t: t, dir: t.TempDir()}
	prefix := filepath.Join(w.dir, "prefix")
	require.NoError(t, os.Mkdir(prefix, 0o700))
	w.env = append(os.Environ(), "WINEPREFIX="+prefix, "WINEDEBUG=-all", "WINEARCH=win64", "DISPLAY=")
	w.must(nil, "wineserver", "--persistent") // otherwise each command starts one
	t.Cleanup(func() {
		w.must(nil, "wineserver", "--kill")
		w.must(nil, "wineserver", "--wait")
		gone := func() bool { return os.RemoveAll(prefix) == nil } // others than the server end after it
		require.Eventually(t, gone, testenv.Patience, 10*time.Millisecond)
	})
	w.must(nil, "wineboot", "--init")
	library := filepath.Join(prefix, "drive_c/windows/system32/bcryptprimitives.dll")
	w.must(nil, compiler, "-shared", "-o", library, "testdata/bcryptprimitives.c", "-ladvapi32")
	return w
}

// must runs a program that succeeds.
func (w *wine) must(env []string, name string, args ...string) {
	w.t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(w.env, env...)
	log, err := os.Create(filepath.Join(w.dir, "log")) // no pipe, which what stays in the background would keep open
	require.NoError(w.t, err)
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	err = c.Run()
	out, _ := os.ReadFile(log.Name())
	require.NoError(w.t, err, "%s %v: %s", name, args, out)
}

// output is what a command has written, and its status.
type output struct {
	out, said string
	status    int
}

// times are when a verb has printed an object, and how long a page was watched.
var times = regexp.MustCompile(`"time":"[^"]*"|"seconds":[0-9.]*`)

func (w *wine) run(args ...string) (o output) {
	w.t.Helper()
	c := exec.Command(args[0], args[1:]...)
	c.Env = w.env
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	_ = c.Run()
	o = output{out.String(), said.String(), c.ProcessState.ExitCode()}
	if args[len(args)-1] == "json" {
		o.out = times.ReplaceAllString(o.out, "")
	}
	return o
}

// record records events of every kind of argument, and operations of which one does not end.
func record(t *testing.T, path string) {
	p := stapsdt.NewProvider("shop")
	start := stapsdt.NewProbe3[uint64, uint64, string](p, "order__start", "id", "parent", "route")
	end := stapsdt.NewProbe3[uint64, int32, bool](p, "order__end", "id", "status", "cached")
	kinds := stapsdt.NewProbe5[int64, float64, time.Duration, time.Time, unsafe.Pointer](p, "kinds", "low", "part", "took", "at", "of")
	recorder, err := proberec.Create(path, 1<<20, p)
	require.NoError(t, err)
	recorder.Start()
	for id := range uint64(10) {
		start.Fire(id+1, id/3, []string{"/a", "/b \"quoted\"\n", "", "é"}[id%4])
		if id != 4 {
			end.Fire(id+1, 200+int32(id), id%2 == 0)
		}
		kinds.Fire(-1<<63, -0.5, -time.Nanosecond, time.Unix(0, 1<<60), unsafe.Pointer(p))
	}
	require.NoError(t, recorder.Close())
}

// TestWindows: the command for Windows prints the same bytes as that for Linux, and says what it cannot do.
func TestWindows(t *testing.T) {
	testenv.Long(t, "it starts Windows, and builds the command for it")
	w := newWine(t)
	linux, windows := filepath.Join(w.dir, "stapsdt"), filepath.Join(w.dir, "stapsdt.exe")
	w.must([]string{"CGO_ENABLED=0"}, "go", "build", "-o", linux, module+"/cmd/stapsdt")
	w.must([]string{"CGO_ENABLED=0", "GOOS=windows"}, "go", "build", "-o", windows, module+"/cmd/stapsdt")
	file := filepath.Join(w.dir, "shop.rec")
	record(t, file)
	page := httptest.NewServer(debugprobe.Handler())
	defer page.Close()
	for _, args := range []string{
		"list", "list -o json", "trace", "trace -o json", "trace -o csv", "trace -n 3", "trace -v",
		"trace shop:order__end -o csv -w status%2==0", "trace shop:kinds --show low,took,at",
		"trace -o perfetto -O -", "trace -o chrome -O -", "trace --since 1h", "trace -w nothing>1",
		"count", "count --by len(route)", "count -o json", "count -p 1", "count -i 1s",
		"hist shop:kinds part", "hist shop:order__start id --linear 1:10:2", "hist shop:kinds took -o json",
		"latency shop:order", "latency shop:order --by status --table", "latency shop:order -o json",
		"top", "top --by status", "top -o json",
		"tree", "tree --slowest 2", "tree --request 4", "tree -o json", "tree --errors",
	} {
		verb, rest, _ := strings.Cut(args, " ")
		all := append([]string{verb, "--from", file}, strings.Fields(rest)...)
		want := w.run(append([]string{linux}, all...)...)
		require.Equal(t, want, w.run(append([]string{"wine", windows}, all...)...), args)
		require.NotZero(t, len(want.out)+len(want.said), args)
	}
	for _, args := range []string{"list %", "count % -d 1ms", "top % -n 1 -i 1ms -o json", "trace % nothing:*"} {
		all := strings.Fields(strings.Replace(args, "%", page.URL, 1))
		require.Equal(t, w.run(append([]string{linux}, all...)...), w.run(append([]string{"wine", windows}, all...)...), args)
	}
	for args, says := range map[string]string{
		"trace -p 1 shop:*":     "processes and their files are traced on Linux: on this system, give a recording with --from FILE",
		"top -p shop":           "processes and their files are traced on Linux",
		"list -a":               "processes and their files are traced on Linux",
		"latency -a shop:order": "processes and their files are traced on Linux",
		"doctor -p 1":           "doctor works on Linux only",
		"record -a shop:*":      "record needs Linux",
	} {
		got := w.run(append([]string{"wine", windows}, strings.Fields(args)...)...)
		require.Contains(t, got.said, "stapsdt: "+says, args)
		require.Equal(t, 2, got.status, args)
	}
}
