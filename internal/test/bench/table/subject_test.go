//go:build linux

package table

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// The subjects' names: the two builds of the Go program, and the C program by its
// nop.
const (
	pureGo  = "go"
	withCgo = "cgo"
)

// cSubject returns the name of the C program whose sites are of that kind.
func cSubject(kind string) string { return "c-" + kind }

// chosen is the C program whose sites are those that this kernel gets.
func chosen() string { return cSubject(site.Chosen().Name) }

// cRecorded is that program, which records to a file.
const cRecorded = "c-recorded"

// The same programs, whose recordings have the kernel's clock: they find the clock source kvm-clock. The others find tsc, which recordings read
// themselves where countsReliably.
const (
	otherClock  = "other-clock"
	otherClockC = "c-other-clock"
)

// countsReliably reports whether the processor has a counter that never stops, so that recordings can have it as their clock.
func countsReliably() bool {
	info, err := os.ReadFile("/proc/cpuinfo")
	return runtime.GOARCH == "amd64" && err == nil && bytes.Contains(info, []byte(" nonstop_tsc "))
}

// siteKinds are the kinds of site that are measured in C: those that any kernel
// attaches to, and the one that this kernel gets.
func siteKinds() []string {
	kinds := []string{site.Chosen().Name}
	if runtime.GOARCH == "amd64" {
		kinds = append(kinds, "nop1", "nop5")
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// subjects are the programs that are measured. Each does what a line "ROW N" says, and answers with a number.
type subjects map[string]*tracetest.Process

func startSubjects(t testing.TB) subjects {
	all := subjects{}
	finding := func(source string, cmd *exec.Cmd) *exec.Cmd {
		tracetest.ClockSource(t, cmd, source)
		return cmd
	}
	for _, name := range []string{pureGo, withCgo} {
		all.start(t, name, finding("tsc", exec.Command(filepath.Join(*work, "subject-"+name))))
	}
	all.start(t, otherClock, finding("kvm-clock", exec.Command(filepath.Join(*work, "subject-"+pureGo))))
	for _, kind := range siteKinds() {
		all.start(t, cSubject(kind), exec.Command(copyProgram(t, "csubject", kind)), "STAPSDT_SITE="+kind)
	}
	for name, source := range map[string]string{cRecorded: "tsc", otherClockC: "kvm-clock"} {
		all.start(t, name, finding(source, exec.Command(copyProgram(t, "csubject", name))), "STAPSDT_RECORD="+filepath.Join(*images, name+".rec"))
	}
	return all
}

// copyProgram copies a program: uprobes belong to files, and a tracer of one must not slow down the others.
func copyProgram(t testing.TB, program, name string) (path string) {
	content := tracetest.Must(os.ReadFile(filepath.Join(*work, program)))(t)
	path = filepath.Join(*work, program+"-"+name)
	require.NoError(t, os.WriteFile(path, content, 0o700))
	return path
}

// start runs a program, with a directory of its own for its images, and waits until its probes are loaded.
func (all subjects) start(t testing.TB, name string, cmd *exec.Cmd, env ...string) {
	cmd.Env = append(os.Environ(), append(env, "STAPSDT_DIR="+filepath.Join(*images, name), "STAPSDT_BENCH_COMMAND="+filepath.Join(*work, "stapsdt"))...)
	all[name] = tracetest.Command(t, cmd)
	all[name].Expect("ready", testenv.Patience)
}

// ask has a program do a row's operation, and returns its answer.
func (all subjects) ask(t testing.TB, name, row string, n int) (answer float64) {
	all[name].Say(fmt.Sprint(row, " ", n))
	_, err := fmt.Sscan(all[name].Expect("took ", testenv.Patience), &answer)
	require.NoError(t, err)
	return answer
}

// end has a program end, by the end of its input.
func (all subjects) end(t testing.TB, name string) {
	all[name].Hangup()
	require.NoError(t, all[name].Wait(testenv.Patience))
	delete(all, name)
}

// measure takes the measurements of the list in a number of rounds, each in turn with its unit.
func (r results) measure(t testing.TB, all subjects, list []measurement, rounds int) {
	for range rounds {
		for _, m := range list {
			var reference func() float64
			if m.unit != "" {
				row := m.unit[strings.LastIndexByte(m.unit, ' ')+1:]
				reference = func() float64 { return all.ask(t, pureGo, row, unitFires) / unitFires }
			}
			r.inTurn(m.key(), m.unit, m.times, reference, func() float64 { return all.ask(t, m.subject, m.row, m.n) / m.per })
		}
	}
}

// measureOutside is measure with a session of LTTng, whose program it starts. The programs of this repository start a
// watcher themselves, and fail when it has not seen every fire.
func (r results) measureOutside(t testing.TB, all subjects, list []measurement, rounds int) {
	session := startLTTng(t)
	fired := 0
	for _, m := range list {
		if m.subject == lttngSubject {
			fired += rounds * m.times * m.n
		}
	}
	// The program waits until the daemon knows its tracepoints.
	all.start(t, lttngSubject, exec.Command(filepath.Join(*work, "lttngsubject")), "LTTNG_UST_REGISTER_TIMEOUT=-1")
	r.measure(t, all, list, rounds)
	all.end(t, lttngSubject)
	session.stop(t, fired)
}

// measureTraced is measure with a tracer attached to each subject. It fails when
// the tracers have not counted every fire.
func (r results) measureTraced(t testing.TB, all subjects, list []measurement, rounds int) {
	tracers := map[string]*tracetest.Tracer{}
	for name, p := range all {
		tracers[name] = tracetest.Bpftrace(t, `usdt:*:bench:* { @ = count(); }`, "-p", strconv.Itoa(p.PID()))
	}
	// The kernel optimises a site when it is hit for the first time.
	const first = 1000
	fired := map[string]int{}
	for _, m := range list {
		if m.row == clock || m.row == getppid {
			continue
		}
		all.ask(t, m.subject, m.row, first)
		fired[m.subject] += first + rounds*m.times*m.n
	}
	r.measure(t, all, list, rounds)
	for name, tracer := range tracers {
		require.Equal(t, fired[name], counted(t, tracer), name)
	}
}

// counted ends a bpftrace, and returns what it has counted.
func counted(t testing.TB, tracer *tracetest.Tracer) int {
	count := regexp.MustCompile(`(?m)^@: (\d+)$`).FindStringSubmatch(tracer.Stop())
	require.NotNil(t, count, "%s", tracer.Dump())
	n := tracetest.Must(strconv.Atoi(count[1]))(t)
	return n
}
