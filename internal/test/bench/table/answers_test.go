//go:build linux

package table

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// answer is something that one waits for: how long a command takes until it has answered.
type answer struct {
	what, name string
	ask        func() (milliseconds float64)
}

// key is where results have it.
func (a *answer) key() string { return answerKey(a.name) }

func answerKey(name string) string { return "answers " + name }

// helloStart is the unit of answers: how long a static hello takes, from its start to its end.
const helloStart = "answers hello"

// functionPeak is the memory that the search for a function takes, in MB.
const functionPeak = "answers functionpeak"

// measureAnswers measures how long one waits for the answers of the command, each in turn with the start of a hello.
func (r results) measureAnswers(t testing.TB, rounds int) (list []answer) {
	hello := func() float64 { return runFor(t, filepath.Join(*work, "hello")) }
	list = r.answers(t)
	for range rounds {
		r.inTurn(helloStart, "", repeats, nil, hello)
		for _, a := range list {
			r.inTurn(a.key(), helloStart, repeats, hello, a.ask)
		}
	}
	return list
}

// answers prepares everything that the commands are asked about.
func (r results) answers(t testing.TB) []answer {
	command := filepath.Join(*work, "stapsdt")
	run := func(words ...string) func() float64 {
		return func() float64 { return runFor(t, words...) }
	}
	first := func(via, whose string) func() float64 {
		return func() float64 { return firstEvent(t, via, whose) }
	}
	image, recording := manyProbes(t), largeRecording(t)
	return []answer{
		{"`version`", "version", run(command, "version")},
		{"the first event of `trace -p`, socket", "socket", first("socket", "-p")},
		{"the first event of `trace -a`, socket", "socketall", first("socket", "-a")},
		{"the first event of `trace -p`, kernel", "kernel", first("kernel", "-p")},
		{"the first event of `bpftrace -p`", "bpftrace", first("bpftrace", "")},
		{"`list -p`, 20,000 probes", "listprocess", run(command, "list", "-p", strconv.Itoa(os.Getpid()))},
		{"`list FILE`, 20,000 probes", "listfile", run(command, "list", image)},
		{"`readelf -n FILE`, 20,000 probes", "readelf", run("readelf", "-n", image)},
		{"`count --from` of 10 million events", "counted", run(command, "count", "--from", recording)},
		{"`count --from --since` of the last of them", "since", run(command, "count", "--from", recording, "--since", "100us")},
		{"`list 'go:main.main'` of the command, stripped", "function", func() float64 { return r.functionOf(t, command) }},
	}
}

// runFor runs a command, and returns the milliseconds until it ends.
func runFor(t testing.TB, words ...string) float64 {
	start := time.Now()
	output(t, words...)
	return milliseconds(time.Since(start))
}

func output(t testing.TB, words ...string) string {
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	require.NoError(t, err, "%v: %s", words, out)
	return string(out)
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// functionOf finds a function of the command itself, whose symbols and debug information are left out.
func (r results) functionOf(t testing.TB, command string) float64 {
	words := []string{command, "list", "go:main.main", command + "-stripped"}
	peak := output(t, append([]string{filepath.Join(*work, "subject-live"), "peak"}, words...)...)
	kibibytes, err := strconv.ParseFloat(strings.TrimSpace(peak), 64)
	require.NoError(t, err)
	r[functionPeak] = append(r[functionPeak], kibibytes*1024/1e6)
	return runFor(t, words...)
}

// firstEvent returns how long a tracer takes, from its start, until it prints an event of a program that fires all the time.
func firstEvent(t testing.TB, via, whose string) float64 {
	p := startPace(t)
	defer func() {
		p.Signal(os.Kill)
		_ = p.Wait(testenv.Patience)
	}()
	p.Say("fire 1 10 1000000000")
	args := []string{"trace", "-n", "1", "--via", via, whose, strconv.Itoa(p.PID()), "live:two"}
	if whose == "-a" {
		args = []string{"trace", "-n", "1", "--via", via, whose, "live:two"}
	}
	cmd := stapsdtCommand(args...)
	if via == "bpftrace" {
		cmd = exec.Command("bpftrace", "-B", "line", "-p", strconv.Itoa(p.PID()), "-e",
			`usdt:*:live:two { printf("live:two %d\n", arg0); exit(); }`)
	}
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	start := time.Now()
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "live:two") {
	}
	took := milliseconds(time.Since(start))
	require.Contains(t, lines.Text(), "live:two")
	_, _ = io.Copy(io.Discard, stdout)
	require.NoError(t, cmd.Wait())
	return took
}

// manyProbes loads 20,000 probes in this process, and returns their file.
func manyProbes(t testing.TB) (image string) {
	dir := t.TempDir()
	p := stapsdt.NewProvider("many", stapsdt.WithDir(dir))
	t.Cleanup(func() { p.Close() })
	for i := range many {
		_, err := p.AddProbe(fmt.Sprintf("probe%d", i), stapsdt.Uint64, stapsdt.Int32)
		require.NoError(t, err)
	}
	require.NoError(t, p.Load())
	return p.Path()
}

// largeRecording records ten million events.
func largeRecording(t testing.TB) (path string) {
	path = filepath.Join(*work, "large.rec")
	watchedLive(t, "fire 1 2000 10000000", io.Discard, io.Discard, "record", "live:two", "--size", "1G", "-O", path)
	return path
}

// answered returns the table of answers.
func (r results) answered(list []answer) string {
	var s strings.Builder
	fmt.Fprintf(&s, "A static hello in Go starts and ends in %s.\n\n", inMilliseconds(r.median(helloStart)))
	s.WriteString("| until the command has answered | elapsed | hellos |\n|---|--:|--:|\n")
	for _, a := range list {
		row(&s, a.what, r.cells(a.key(), inMilliseconds, helloStart))
	}
	row(&s, "memory of the search for that function", r.cells(functionPeak, megabytes), " |")
	return s.String()
}

func inMilliseconds(v float64) string { return fmt.Sprintf("%.0f ms", v) }
