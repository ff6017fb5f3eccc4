//go:build linux && (amd64 || arm64)

package bpf

import (
	"debug/elf"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// loaded is a provider with probes of two words and a text, and their sites.
func loaded(t *testing.T, probes ...string) (p *stapsdt.Provider, sites []Site) {
	t.Helper()
	p = stapsdt.NewProvider("systest", stapsdt.WithDir(t.TempDir()))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	for _, name := range probes {
		_, err := p.AddProbe(name, stapsdt.Uint64, stapsdt.Int8, stapsdt.String)
		require.NoError(t, err)
	}
	require.NoError(t, p.Load())
	sites, err := Sites(p.Path())
	require.NoError(t, err)
	require.Len(t, sites, len(probes))
	return p, sites
}

func TestRecorder(t *testing.T) {
	Need(t)
	p, sites := loaded(t, "first", "second")
	r, err := NewRecorder()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	l, err := r.Attach(p.Path(), sites)
	require.NoError(t, err)
	for i, probe := range p.Probes() {
		require.NoError(t, r.Expect(Text{sites[i].Args[2], 5}))
		require.NoError(t, probe.Fire(uint64(1)<<63, -1, "text"))
		e, err := r.Read(testenv.Patience)
		require.NoError(t, err)
		require.EqualValues(t, i, e.Cookie)
		require.Equal(t, os.Getpid(), e.PID)
		for j, want := range []uint64{1 << 63, ^uint64(0)} {
			got, err := e.Arg(sites[i].Args[j])
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		require.Equal(t, "text\x00", string(e.Texts[0]))
	}
	require.NoError(t, l.Close())
	require.False(t, p.Probes()[0].Enabled())
	_, err = r.Read(time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	require.Error(t, r.Expect(Text{sites[0].Args[2], 0}))
	require.Error(t, r.Expect(Text{sites[0].Args[2], MaxText + 1}))
	arg := sdt.ParseArgs(elf.EM_X86_64, "8@8(%rdi)")[0]
	require.Error(t, r.Expect(Text{arg, 1}), "that is no word of the event")
}

func TestCounter(t *testing.T) {
	Need(t)
	p, sites := loaded(t, "first", "second")
	const windows, goroutines, fires = 4, 8, 1000
	args := Arguments{Window: sites[0].Args[0], Value: sites[0].Args[1], Extra: sites[0].Args[2], Text: true}
	c, err := NewCounter(len(sites), windows, args)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	l, err := c.Attach(p.Path(), sites)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range fires {
				for window := range windows + 1 {
					p.Probes()[i%2].Fire(window, -window, "\x01\x00\x00\x00\x00\x00\x00\x00")
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, l.Close())
	p.Probes()[0].Fire(1, 1, strings.Repeat("x", 8)) // unseen
	const each = goroutines * fires / 2
	for cookie := range uint64(2) {
		for window := range windows {
			got, err := c.Tally(cookie, window)
			require.NoError(t, err)
			require.Equal(t, Tally{Count: each, Value: uint64(-window * each), Extra: each}, got, fmt.Sprint(cookie, window))
		}
	}
	strays, err := c.Strays()
	require.NoError(t, err)
	require.EqualValues(t, 2*each, strays.Count)

	require.NoError(t, c.Reset(1, 2))
	got, err := c.Tally(1, 2)
	require.NoError(t, err)
	require.Zero(t, got)
	_, err = c.Tally(2, 0)
	require.Error(t, err)
	_, err = c.Tally(0, windows)
	require.Error(t, err)
}

// TestCounterFaults: reading memory that the program does not have is reported.
func TestCounterFaults(t *testing.T) {
	Need(t)
	p, sites := loaded(t, "first")
	c, err := NewCounter(1, 1, Arguments{Window: sites[0].Args[0], Value: sites[0].Args[1], Extra: sites[0].Args[0], Text: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	l, err := c.Attach(p.Path(), sites)
	require.NoError(t, err)
	require.NoError(t, p.Probes()[0].Fire(0, 1, ""))
	require.NoError(t, l.Close())
	got, err := c.Tally(0, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Count)
	require.NotZero(t, got.Faults)
}

// BenchmarkCounter is what a traced fire takes.
func BenchmarkCounter(b *testing.B) {
	Need(b)
	p := stapsdt.NewProvider("systest", stapsdt.WithDir(b.TempDir()))
	defer p.Close()
	probe := stapsdt.NewProbe2[uint64, uint64](p, "event")
	require.NoError(b, p.Load())
	sites, err := Sites(p.Path())
	require.NoError(b, err)
	args := sites[0].Args
	c, err := NewCounter(1, 1, Arguments{Window: args[0], Value: args[1], Extra: args[1]})
	require.NoError(b, err)
	defer c.Close()
	b.Run("fire", func(b *testing.B) {
		l, err := c.Attach(p.Path(), sites)
		require.NoError(b, err)
		for b.Loop() {
			probe.Fire(0, 1)
		}
		b.StopTimer()
		require.NoError(b, l.Close())
	})
	b.Run("attach", func(b *testing.B) {
		for b.Loop() {
			l, err := c.Attach(p.Path(), sites)
			require.NoError(b, err)
			require.NoError(b, l.Close())
		}
	})
}
