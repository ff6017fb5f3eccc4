//go:build linux

// Package live measures what the command reads from a program's socket, and what this takes from the program, beside the
// kernel's way:
//
//	go test ./bench/live -run - -bench . -benchtime 1x
//
// as root, in internal/test. docs/cost.md has the figures.
package live

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// startSubject starts one of the programs, and returns what it says when it is ready.
func startSubject(t testing.TB, name string) (p *tracetest.Process, ready string) {
	t.Helper()
	cmd := exec.Command(tracetest.Build(t, "subject", "CGO_ENABLED=0"), name)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
	p = tracetest.Command(t, cmd)
	return p, p.Expect("ready", testenv.Patience)
}

// startPacer starts the program that fires.
func startPacer(t testing.TB) *tracetest.Process {
	t.Helper()
	p, _ := startSubject(t, "pace")
	return p
}

// totals are the sums of what a command printed as JSON: events that it has seen and lost, and its processor time.
type totals struct {
	seen, lost uint64
	used       time.Duration
}

// watch fires while a command runs, which prints JSON to a pipe, and returns what it has seen and how long the program fired.
func watch(t testing.TB, p *tracetest.Process, fire string, args ...string) (total totals, took time.Duration) {
	t.Helper()
	cmd := exec.Command(tracetest.Stapsdt(t), append(args, "-o", "json", "-p", strconv.Itoa(p.PID()))...)
	cmd.Stderr = io.Discard
	out := tracetest.Must(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- total.read(out, args[0]) }()
	p.Say(fire)
	nanoseconds := tracetest.Must(strconv.ParseInt(p.Expect("fired ", 10*testenv.Patience), 10, 64))(t)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, <-done)
	require.NoError(t, cmd.Wait())
	total.used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return total, time.Duration(nanoseconds)
}

// read reads what a command prints. Of trace, a line is an event, and the others print the numbers.
func (total *totals) read(in io.Reader, verb string) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if verb == "trace" && strings.HasPrefix(string(line), `{"time"`) {
			total.seen++
			continue
		}
		var row struct{ Count, Lost uint64 }
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		total.seen, total.lost = total.seen+row.Count, total.lost+row.Lost
	}
}

// BenchmarkPaced: two threads fire at a rate that is read without a loss.
func BenchmarkPaced(b *testing.B) {
	for _, c := range []struct {
		name string
		rate int // of each thread, in a millisecond
		args []string
	}{
		{"hist, 5 million", 2500, []string{"hist", "live:two", "status"}},
		{"hist, 10 million", 5000, []string{"hist", "live:two", "status"}},
		{"hist by an argument, 10 million", 5000, []string{"hist", "live:two", "id", "--by", "status % 8"}},
		{"trace as JSON, 0.5 million", 250, []string{"trace", "live:two"}},
		{"trace as JSON, 1 million", 500, []string{"trace", "live:two"}},
		{"trace as JSON, 3 million", 1500, []string{"trace", "live:two"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := startPacer(b)
			for range b.N {
				const seconds = 5
				fires := uint64(2 * c.rate * 1000 * seconds)
				total, took := watch(b, p, fmt.Sprintf("fire 2 %d %d", c.rate, fires), append(c.args, "--via", "socket")...)
				require.Equal(b, fires, total.seen+total.lost)
				b.ReportMetric(float64(fires)/took.Seconds()/1e6, "million/s")
				b.ReportMetric(100*float64(total.lost)/float64(fires), "%lost")
				b.ReportMetric(100*total.used.Seconds()/took.Seconds(), "%processor")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkBillion: of 10^9 events of two threads that fire as fast as they can, each was seen or is known to be lost.
func BenchmarkBillion(b *testing.B) {
	p := startPacer(b)
	for range b.N {
		const fires = 1_000_000_000
		total, took := watch(b, p, fmt.Sprint("fire 2 0 ", fires), "count", "live:two", "--via", "socket")
		require.EqualValues(b, fires, total.seen+total.lost)
		b.ReportMetric(float64(fires)/took.Seconds()/1e6, "million/s")
		b.ReportMetric(100*float64(total.lost)/fires, "%lost")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFirst measures how long it takes from the start of the command until its first event is printed, at a program that fires
// all the time.
func BenchmarkFirst(b *testing.B) {
	for _, via := range []string{"socket", "kernel"} {
		b.Run(via, func(b *testing.B) {
			if via == "kernel" {
				testenv.NeedsRoot(b)
			}
			p := startPacer(b)
			p.Say(fmt.Sprint("fire 1 10 ", 1<<40))
			var all []time.Duration
			for range 21 {
				cmd := exec.Command(tracetest.Stapsdt(b), "trace", "--via", via, "-n", "1", "-p", strconv.Itoa(p.PID()), "live:two")
				out := tracetest.Must(cmd.StdoutPipe())(b)
				began := time.Now()
				require.NoError(b, cmd.Start())
				lines := bufio.NewScanner(out)
				for lines.Scan() && !strings.Contains(lines.Text(), "live:two") {
				}
				all = append(all, time.Since(began))
				require.Contains(b, lines.Text(), "live:two")
				_, _ = io.Copy(io.Discard, out)
				require.NoError(b, cmd.Wait())
			}
			slices.Sort(all)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "ms-longest")
		})
	}
}

// BenchmarkServer measures how many commands are answered by a server that fires twice for each: unwatched, with a histogram by its socket,
// and with one by the kernel. The machine's own speed varies, so three servers run in turn, for a fraction of a second each. The
// figures are medians.
func BenchmarkServer(b *testing.B) {
	testenv.NeedsRoot(b)
	client := testenv.NeedsTool(b, "redis-benchmark", "redis-tools")
	const rounds = 150
	var servers []*watched
	for _, via := range []string{"", "socket", "kernel"} {
		servers = append(servers, startWatched(b, via))
	}
	for range rounds {
		for _, s := range servers {
			s.rates = append(s.rates, s.rate(b, client))
		}
	}
	b.ReportMetric(0, "ns/op")
	unwatched := servers[0].rates
	b.ReportMetric(median(unwatched), "unwatched/s")
	for _, s := range servers[1:] {
		s.end(b, rounds)
		var slower []float64
		for i, rate := range s.rates {
			slower = append(slower, 100*(1-rate/unwatched[i]))
		}
		b.ReportMetric(median(s.rates), s.via+"/s")
		b.ReportMetric(median(slower), s.via+"-%slower")
	}
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// watched is a server with the command that watches it, if any.
type watched struct {
	via, port string
	watcher   *exec.Cmd // or nil
	out       strings.Builder
	rates     []float64
}

// requests is the number of commands that a server answers in a round.
const requests = 100_000

func startWatched(b *testing.B, via string) *watched {
	b.Helper()
	p, port := startSubject(b, "serve")
	s := &watched{via: via, port: port}
	if via != "" {
		s.watcher = exec.Command(tracetest.Stapsdt(b), "hist", "-o", "json", "--via", via, "-p", strconv.Itoa(p.PID()), "live:command__end", "elapsed")
		s.watcher.Stdout, s.watcher.Stderr = &s.out, os.Stderr
		require.NoError(b, s.watcher.Start())
		time.Sleep(500 * time.Millisecond) // it watches by then, or the count at the end is too small
	}
	return s
}

// rate returns how many commands a second the server answers.
func (s *watched) rate(b *testing.B, client string) float64 {
	b.Helper()
	report, err := exec.Command(client, "-p", s.port, "-t", "set", "-n", strconv.Itoa(requests), "-c", "20", "-P", "16", "-q").CombinedOutput()
	require.NoError(b, err, "%s", report)
	match := regexp.MustCompile(`SET: ([\d.]+) requests per second`).FindAllSubmatch(report, -1)
	require.NotEmpty(b, match, "%s", report)
	return tracetest.Must(strconv.ParseFloat(string(match[len(match)-1][1]), 64))(b)
}

// end ends the watcher, which must have seen each command.
func (s *watched) end(b *testing.B, rounds int) {
	b.Helper()
	require.NoError(b, s.watcher.Process.Signal(os.Interrupt))
	require.NoError(b, s.watcher.Wait())
	total := totals{}
	require.NoError(b, total.read(strings.NewReader(s.out.String()), "hist"))
	require.EqualValues(b, rounds*(requests+2), total.seen, "each client asks for the configuration first")
	require.Zero(b, total.lost)
}

// BenchmarkIdle measures what the command takes of a processor while nothing happens, for 20 seconds.
func BenchmarkIdle(b *testing.B) {
	for _, via := range []string{"socket", "kernel"} {
		b.Run(via, func(b *testing.B) {
			if via == "kernel" {
				testenv.NeedsRoot(b)
			}
			p := startPacer(b)
			cmd := exec.Command(tracetest.Stapsdt(b), "trace", "--via", via, "-p", strconv.Itoa(p.PID()), "live:two")
			require.NoError(b, cmd.Start())
			time.Sleep(2 * time.Second)
			before, began := tracetest.ProcessorTime(b, cmd.Process.Pid), time.Now()
			time.Sleep(20 * time.Second)
			b.ReportMetric(100*(tracetest.ProcessorTime(b, cmd.Process.Pid)-before).Seconds()/time.Since(began).Seconds(), "%processor")
			b.ReportMetric(0, "ns/op")
			require.NoError(b, cmd.Process.Signal(syscall.SIGTERM))
			_ = cmd.Wait()
		})
	}
}
