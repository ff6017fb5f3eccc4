//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestPhases does a little of each phase.
func TestPhases(t *testing.T) {
	bpf.Need(t)
	for _, p := range phases {
		t.Run(p.name, func(t *testing.T) {
			p = p.scaled(0.001)
			res, err := p.execute(testenv.Patience)
			require.NoError(t, err)
			require.Equal(t, p.cycles, res.Cycles)
			require.GreaterOrEqual(t, res.Fired, uint64(p.fires/p.cycles*p.cycles))
			require.Equal(t, res.Fired, res.Seen)
			require.GreaterOrEqual(t, res.Free, res.FreeSeen)
			require.Len(t, res.Notes, len(p.disturb))
		})
	}
}

// spoiled is words with fires that are not what the program believes.
func spoiled(spoil func(window, value, extra *uint64) bool) shape {
	return shape{
		probe: func(p *stapsdt.Provider, name string) (fire, error) {
			f, err := words.probe(p, name)
			return func(firer *firer, window, value, extra uint64) {
				if spoil(&window, &value, &extra) {
					f(firer, window, value, extra)
				}
			}, err
		},
		args: words.args,
	}
}

// TestDifferences: what the phases look for is found.
func TestDifferences(t *testing.T) {
	bpf.Need(t)
	seldom := func(value uint64) bool { return value%1024 == 0 }
	for name, c := range map[string]struct {
		want  string
		spoil func(window, value, extra *uint64) bool
	}{
		"a fire is lost": {"fired", func(_, value, _ *uint64) bool { return !seldom(*value) }},
		"an argument differs": {"fired", func(_, value, extra *uint64) bool {
			if seldom(*value) {
				*extra++
			}
			return true
		}},
		"a window differs": {"never fired", func(window, value, _ *uint64) bool {
			if seldom(*value) {
				*window = 1e6
			}
			return true
		}},
		"only outside": {"outside", func(window, _, _ *uint64) bool { return *window != 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := findPhase("threads")
			p.shape = spoiled(c.spoil)
			p.fires, p.cycles = 50_000, 50
			_, err := p.scaled(1).execute(testenv.Patience)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestCrash: a process that ends or hangs is a phase that failed, and tells why.
func TestCrash(t *testing.T) {
	defer func(old time.Duration) { grace = old }(grace)
	const hangs = "exec sleep 600"
	for script, want := range map[string]string{
		"echo oops >&2; kill -SEGV $$": "oops",
		"echo '{}'; exit 3":            "exit status 3",
		hangs:                          "not done after 2s",
		"echo nothing":                 "invalid character",
	} {
		program := t.TempDir() + "/program"
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		grace = testenv.Patience
		if script == hangs {
			grace = time.Second
		}
		res := build{"test", program}.run(phases[0], 1, time.Second)
		require.Contains(t, res.Failure, want)
		require.Equal(t, "FAILED", row{"test", "threads", res}.verdict())
	}
	require.Equal(t, 1, printTable([]row{{"test", "a", result{}}, {"test", "b", result{Failure: "so"}}}))
}
