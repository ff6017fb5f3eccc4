//go:build linux

package table

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// measure takes the measurements of the list in a number of rounds.
func (r results) measure(t *testing.T, all subjects, list []measurement, rounds int) {
	for range rounds {
		for _, m := range list {
			answers := results{}
			for range m.times {
				answers[""] = append(answers[""], all.ask(t, m.subject, m.row, m.n)/m.per)
			}
			r[m.key()] = append(r[m.key()], answers.median(""))
		}
	}
}

// measureOutside is measure with a session of LTTng, whose program it starts. The programs of this repository start a
// watcher themselves, and fail when it has not seen every fire.
func (r results) measureOutside(t *testing.T, all subjects, list []measurement, rounds int) {
	session := startLTTng(t)
	fired := 0
	for _, m := range list {
		if m.subject == lttngSubject {
			fired += rounds * m.n
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
func (r results) measureTraced(t *testing.T, all subjects, list []measurement, rounds int) {
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
		fired[m.subject] += first + rounds*m.n
	}
	r.measure(t, all, list, rounds)
	for name, tracer := range tracers {
		require.Equal(t, fired[name], counted(t, tracer), name)
	}
}

// counted ends a bpftrace, and returns what it has counted.
func counted(t *testing.T, tracer *tracetest.Tracer) int {
	count := regexp.MustCompile(`(?m)^@: (\d+)$`).FindStringSubmatch(tracer.Stop())
	require.NotNil(t, count, "%s", tracer.Dump())
	n, err := strconv.Atoi(count[1])
	require.NoError(t, err)
	return n
}
