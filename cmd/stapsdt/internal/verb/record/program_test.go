//go:build linux

package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/trace"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// argTypes are the types that an argument may have.
var argTypes = []recording.Arg{
	{Type: -1, Kind: kind.Int64}, {Type: -4, Kind: kind.Int64}, {Type: -8, Kind: kind.Int64},
	{Type: 2, Kind: kind.Uint64}, {Type: 8, Kind: kind.Uint64}, {Type: kind.TypeFloat32, Kind: kind.Float64},
	{Type: kind.TypeFloat32 + 4, Kind: kind.Float64}, {Type: 1, Kind: kind.Bool}, {Type: -8, Kind: kind.Duration},
	{Type: 8, Kind: kind.Pointer}, {Type: -8, Kind: kind.Time},
}

// memory returns what a program writes for a watcher: the events of three goroutines, each with a
// text and a number of one of the types. The origins of a foreign one are threads, as a C program's.
func memory(t *testing.T, foreign bool) (w *recorder.Writer, fired int) {
	t.Helper()
	chunks := recorder.Chunks(4 << 20)
	o := recorder.Options{Foreign: foreign, Counter: true, Head: recording.Head{PID: 1}}
	w = recorder.New(make([]byte, recorder.Size(chunks)), chunks, o)
	sinks := recorder.Sink{Writer: w}
	var numbers []uint32
	var probes []sink.Probe
	for i, a := range argTypes {
		provider := "all"
		if i == 3 {
			provider = "unselected"
		}
		a.Name = "a"
		text := recording.Arg{Name: "text", Type: kind.TypeString, Kind: kind.String}
		p := &recording.Probe{Provider: provider, Name: fmt.Sprint("event", i), Args: []recording.Arg{a, text}}
		n, ok := w.AddProbe(p)
		require.True(t, ok)
		numbers = append(numbers, n)
		probes = append(probes, sinks.Probe(func() (*recording.Probe, bool) { return p, true }))
	}
	const each = 4000
	var group sync.WaitGroup
	for g := range 3 {
		group.Go(func() {
			for i := range uint64(each) {
				word := []uint64{0, 1, math.MaxUint64, 0x7ff8000000000001, i << 30}[i%5]
				text, probe := strings.Repeat("é", int(i%50)), int(i/7)%len(probes) // some are longer than --strlen
				if foreign {
					w.AppendForeign(numbers[probe], w.Now(), 1, uint32(g+1), []uint64{word, uint64(len(text))}, []string{text})
				} else {
					probes[probe].Append(unsafe.Pointer(&[]unsafe.Pointer{unsafe.Pointer(&word), unsafe.Pointer(&text)}[0]))
				}
			}
		})
	}
	group.Wait()
	return w, 3 * each
}

// recordAll records the events of programs, by Copy or only by Event, of which it returns the number.
func recordAll(t *testing.T, path string, size int64, copies bool, programs ...io.ReaderAt) (delivered int) {
	t.Helper()
	o, err := create(&console.Console{Err: io.Discard}, &Options{Path: path, Size: size, Limit: math.MaxUint64, TextSize: 64}, nil)
	require.NoError(t, err)
	c := newConsumer(o)
	reader, err := replay.New(querytest.Specs("all:*"), "", nil)
	require.NoError(t, err)
	for i, m := range programs {
		_, err := reader.Add(m, &replay.Process{PID: 100 + i}, func() {})
		require.NoError(t, err)
	}
	d := &events.Delivery{Consumer: c, Show: &events.Show{TextSize: 64}}
	_, err = reader.More()
	for err == nil {
		var e *recording.Event
		var f *replay.File
		if e, f, err = reader.Next(); err == nil {
			delivered++
			require.NoError(t, d.Event(e, f))
			if copies {
				err = c.Copy(f, reader)
			}
		}
	}
	require.Equal(t, io.EOF, err)
	for _, f := range reader.Files() {
		d.Gone(f)
	}
	require.NotNil(t, c.writer.Shard(1), "all are released")
	require.Empty(t, c.programs)
	require.Empty(t, c.probes)
	require.NoError(t, c.publish())
	c.close()
	return delivered
}

// origin is where an event comes from, and when.
type origin struct {
	at        time.Duration
	pid, tid  uint32
	goroutine uint64
}

// originsOf returns the events of a recording, and the number of lost ones.
func originsOf(t *testing.T, path string) (all []origin, lost uint64) {
	t.Helper()
	f, err := replay.Open(replay.From{Paths: []string{path}}, nil, "", nil)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.More()
	for err == nil {
		var e *recording.Event
		if e, _, err = f.Next(); err == nil {
			all = append(all, origin{e.Monotonic, e.PID, e.TID, e.Goroutine})
		}
	}
	require.Equal(t, io.EOF, err)
	return all, f.Lost()
}

// traced returns what trace -o json prints of a recording, without the times.
func traced(t *testing.T, path string) (lines []string) {
	t.Helper()
	var out bytes.Buffer
	config := query.Config{Format: query.JSON}
	options := trace.Options{TextSize: 4000, From: replay.From{Paths: []string{path}}}
	require.NoError(t, trace.Run(t.Context(), &console.Console{Out: &out, Err: io.Discard}, config, options))
	for line := range strings.Lines(out.String()) {
		var event map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(line), &event))
		delete(event, "time")
		b, err := json.Marshal(event)
		require.NoError(t, err)
		lines = append(lines, string(b))
	}
	return lines
}

// TestCopied: a recording of copied records is that of decoded events: of a program with goroutines
// and one with threads, with each type of an argument.
func TestCopied(t *testing.T) {
	goes, fired := memory(t, false)
	threads, others := memory(t, true)
	dir := t.TempDir()
	one, two := filepath.Join(dir, "decoded"), filepath.Join(dir, "copied")
	decoded := recordAll(t, one, 16<<20, false, goes, threads)
	copied := recordAll(t, two, 16<<20, true, goes, threads)
	require.Less(t, decoded, fired+others, "some are not selected")
	require.Greater(t, decoded, (fired+others)*8/10)
	require.Less(t, copied, decoded/2, "texts that are too long are not copied")

	want, lost := originsOf(t, one)
	have, lostToo := originsOf(t, two)
	require.Len(t, want, decoded)
	require.Equal(t, want, have)
	require.Zero(t, lost+lostToo)
	known := map[origin]bool{}
	for _, o := range have {
		o.at = 0
		known[o] = true
	}
	require.Len(t, known, 6, "three goroutines and three threads")

	lines := traced(t, one)
	require.Len(t, lines, decoded)
	require.Equal(t, lines, traced(t, two))
}

// TestCopiedFull: a recording with room for few events has the last ones, and counts the others. It
// has no shard for each program.
func TestCopiedFull(t *testing.T) {
	var programs []io.ReaderAt
	for range 4 {
		w, _ := memory(t, false)
		programs = append(programs, w)
	}
	all := 0
	path := filepath.Join(t.TempDir(), "recording")
	for _, copies := range []bool{false, true} {
		delivered := recordAll(t, path, MinSize, copies, programs...)
		if all = max(all, delivered); copies {
			require.Less(t, delivered, all)
		}
		have, lost := originsOf(t, path)
		require.Greater(t, len(have), 500)
		require.Greater(t, lost, uint64(1000))
		require.Equal(t, all, len(have)+int(lost))
	}
}

// TestCopiedTruncated: the recording ends with an error if its file is truncated while records are
// copied to it.
func TestCopiedTruncated(t *testing.T) {
	testenv.NotEmulated(t, "a signal has no address there")
	w, _ := memory(t, false)
	o := &Options{Path: filepath.Join(t.TempDir(), "recording"), Size: MinSize, Limit: math.MaxUint64, TextSize: 4000}
	out, err := create(&console.Console{Err: io.Discard}, o, nil)
	require.NoError(t, err)
	defer out.close()
	c := newConsumer(out)
	reader, err := replay.New(querytest.Specs("all:*"), "", nil)
	require.NoError(t, err)
	file, err := reader.Add(w, &replay.Process{PID: 100}, func() {})
	require.NoError(t, err)
	d := &events.Delivery{Consumer: c, Show: &events.Show{TextSize: o.TextSize}}
	_, err = reader.More()
	require.NoError(t, err)
	for range 100 { // all probes are known by then
		e, _, err := reader.Next()
		require.NoError(t, err)
		require.NoError(t, d.Event(e, file))
		require.NoError(t, c.failed())
	}
	require.NoError(t, os.Truncate(out.file.Path, 0))
	require.NoError(t, c.Copy(file, reader))
	require.ErrorContains(t, c.failed(), "the recording has ended, because the file was truncated")
}
