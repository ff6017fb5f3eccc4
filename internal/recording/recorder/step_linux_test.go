package recorder

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/steptest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain is also the programs that TestEveryInstruction steps through and TestReadings stops.
func TestMain(m *testing.M) {
	if clock := os.Getenv("RECORDER_READING"); clock != "" {
		readAlways(clockReader{useCounter: clock == "counter"})
		return
	}
	if path := os.Getenv("RECORDER_STEPPED"); path != "" {
		stepped(path)
	}
	os.Exit(m.Run())
}

const steppedChunks = 6

// stepped records numbers to a file, on one thread, forever. The records are large, so that chunks are soon full.
func stepped(path string) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	must(err)
	must(f.Truncate(Size(steppedChunks)))
	memory, err := unix.Mmap(int(f.Fd()), 0, int(Size(steppedChunks)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(err)
	runtime.LockOSThread()
	w := New(memory, steppedChunks, Options{Counter: os.Getenv("RECORDER_COUNTER") != "", CannotFail: os.Getenv("RECORDER_COUNTER") == "plain"})
	number, _ := w.AddProbe(&recording.Probe{Provider: "p", Name: "stepped", Args: []recording.Arg{
		{Name: "n", Type: 8, Kind: kind.Uint64}, {Name: "text", Type: kind.TypeString, Kind: kind.String}}})
	two, _ := w.AddProbe(integers(2))
	longs := probeOf(w, two, 8, -8)
	text := strings.Repeat("x", 6000)
	fmt.Println(unix.Gettid())
	for n := uint64(0); ; n++ {
		if n%4 == 1 {
			other := ^n
			args := [...]*uint64{&n, &other}
			longs.Append(unsafe.Pointer(&args))
			continue
		}
		length := n % uint64(len(text))
		if n%4 != 0 {
			length %= 16 // the steps of most records are of their ends
		}
		fireAt(w, number, n, text[:length])
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// TestEveryInstruction: between any two instructions of a thread that records, and so whenever the process is
// killed, the recording has whole records, and the numbers that are seen, lost and missing at the end are
// those that were recorded.
func TestEveryInstruction(t *testing.T) {
	testenv.NotEmulated(t, "it traces itself")
	testenv.NotRaced(t, "most instructions are the detector's")
	for _, counter := range []string{"", "yes", "plain"} {
		t.Run("counter="+counter, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "recording")
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), "RECORDER_STEPPED="+path, "RECORDER_COUNTER="+counter, "GODEBUG=asyncpreemptoff=1")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			defer cmd.Wait()
			defer cmd.Process.Kill()
			var tid int
			_, err = fmt.Sscan(testenv.Line(t, cmd, bufio.NewReader(out)), &tid)
			require.NoError(t, err)
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close()

			steptest.EachInstruction(t, tid, func() uint64 { return committed(t, f) })
		})
	}
}

// committed returns how many records a recording of stepped has had, which it checks.
func committed(t *testing.T, f *os.File) uint64 {
	r := eventtest.Read(t, f)
	seen, next := uint64(0), uint64(0)
	for e := range eventtest.Events(t, r) {
		if seen > 0 {
			require.Equal(t, next, e.Word(0))
		}
		if e.Probe.Name == "stepped" {
			require.Len(t, e.Text(1), int(e.Word(1)))
			require.Empty(t, strings.Trim(string(e.Text(1)), "x"))
		} else {
			require.Equal(t, ^e.Word(0), e.Word(1))
		}
		next = e.Word(0) + 1
		seen++
	}
	require.Equal(t, next, seen+r.Lost())
	return next
}
