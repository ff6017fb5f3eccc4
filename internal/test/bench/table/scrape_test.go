//go:build linux

package table

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// scrapePart is what a scrape costs the exporter.
var scrapePart = commandPart{
	rows: []commandRow{
		{"a series of a scrape of 10,000 counters", "command scrapecounter", nanoseconds, true},
		{"a series of a scrape of 1,000 histograms", "command scrapehistogram", nanoseconds, true},
	},
	start: startScrapes,
}

// The rules, whose series have the labels of as many programs.
const scrapeRules = `metrics:
  - {name: %[1]s, probe: 'live:two', by: [{n: id %% %[2]d}], series: %[2]d, %[3]s, executable: subject-live-scraped}
`

func startScrapes(t testing.TB, r results) func() {
	p := tracetest.Command(t, exec.Command(copyProgram(t, "subject-live", "scraped"), "pace")) // no other program has its name
	p.Expect("ready", testenv.Patience)
	return func() {
		counter := scraped(t, p, "counted_total", 10_000, "counter: 1")
		r["command scrapecounter"] = append(r["command scrapecounter"], counter)
		histogram := scraped(t, p, "measured_seconds", 1000, "histogram: status, scale: 1e-3, unit: seconds")
		r["command scrapehistogram"] = append(r["command scrapehistogram"], histogram)
	}
}

// scraped returns the processor time that an exporter with one rule takes to serve each of its series, in nanoseconds.
func scraped(t testing.TB, p *tracetest.Process, name string, series int, value string) float64 {
	rules := filepath.Join(*work, name+".yaml")
	require.NoError(t, os.WriteFile(rules, fmt.Appendf(nil, scrapeRules, name, series, value), 0o600))
	const address = "127.0.0.1:19964"
	e := tracetest.Command(t, stapsdtCommand("export", "-c", rules, "--listen", address, "--via", "kernel"))
	defer func() {
		e.Signal(os.Interrupt)
		require.NoError(t, e.Wait(testenv.Patience))
	}()
	e.WaitSaid(regexp.MustCompile("metrics are at"), testenv.Patience) // it has attached to the program
	p.Say(fmt.Sprint("fire 1 1000 ", 2*series))
	p.Expect("fired ", testenv.Patience)
	scrape := func() string {
		answer, err := http.Get("http://" + address + "/metrics")
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return string(text)
	}
	require.Contains(t, scrape(), fmt.Sprintf("stapsdt_series{metric=%q} %d\n", name, series))
	const scrapes = 20
	before := processTime(t, e.PID())
	for range scrapes {
		scrape()
	}
	return float64((processTime(t, e.PID()) - before).Nanoseconds()) / float64(scrapes*series)
}

// processTime returns the processor time of a process.
func processTime(t testing.TB, pid int) time.Duration {
	var at unix.Timespec
	// The clock of another process has this number: see clock_getcpuclockid(3).
	require.NoError(t, unix.ClockGettime(int32(^pid<<3|2), &at), strconv.Itoa(pid))
	return time.Duration(at.Nano())
}
