package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	converted "github.com/go-stapsdt/stapsdt/internal/words"

	"github.com/stretchr/testify/require"
)

// argTypes are the types of all arguments that a recording may have.
var argTypes = []recording.Arg{
	{Type: -1, Kind: kind.Int64}, {Type: -2, Kind: kind.Int64}, {Type: -4, Kind: kind.Int64}, {Type: -8, Kind: kind.Int64},
	{Type: 1, Kind: kind.Uint64}, {Type: 2, Kind: kind.Uint64}, {Type: 4, Kind: kind.Uint64}, {Type: 8, Kind: kind.Uint64},
	{Type: kind.TypeFloat32, Kind: kind.Float64}, {Type: kind.TypeFloat32 + 4, Kind: kind.Float64},
	{Type: kind.TypeString, Kind: kind.String}, {Type: 1, Kind: kind.Bool}, {Type: -8, Kind: kind.Duration},
	{Type: 4, Kind: kind.Pointer}, {Type: 8, Kind: kind.Pointer}, {Type: -8, Kind: kind.Time},
}

// control is a name that would control a terminal: by ESC, CR, DEL, and CSI as one byte and as a rune of UTF-8.
const control = "\x1b[7m\r\x7f\x9b\u009b7m\u202e"

// crossing makes a recording in which each type is the argument of an event, and the first, the second and the last of an operation.
func crossing(foreign bool, name string) []byte {
	const chunks = 4
	b := make([]byte, recorder.Size(chunks))
	w := recorder.New(b, chunks, recorder.Options{Head: recording.Head{PID: 7, Executable: "/bin/" + name}, Foreign: foreign})
	number := uint64(0)
	fire := func(probe string, args ...recording.Arg) {
		for i := range args {
			args[i].Name += name
		}
		p := &recording.Probe{Provider: "all" + name, Name: probe, Args: args}
		n, ok := w.AddProbe(p)
		if !ok {
			panic("no room for a probe")
		}
		sink := (&recorder.Sink{Writer: w}).Probe(func() (*recording.Probe, bool) { return p, true })
		for _, word := range []uint64{0, 1, math.MaxInt64, 1 << 63, math.MaxUint64, 0x7ff8000000000001} {
			var own converted.Arguments
			own.Reserve(len(args) * recording.MaxText)
			var list []uint64
			var texts []string
			for i, a := range args {
				if a.Kind == kind.String {
					texts = append(texts, strings.Repeat(control, int(word%3)))
					word = uint64(len(texts[len(texts)-1]))
					own.Texts.Add(texts[len(texts)-1])
				}
				list, own.Words[i] = append(list, word), word
			}
			number++
			if foreign {
				w.AppendForeign(n, 1e9*number, 7, 8, list, texts)
			} else {
				sink.AppendConverted(&own)
			}
		}
	}
	id := recording.Arg{Name: "id", Type: 8, Kind: kind.Uint64}
	for i, a := range argTypes {
		a.Name = "a"
		fire(fmt.Sprint("event", i, name), a)
		for _, args := range [][]recording.Arg{{a, id}, {id, a}, {id, {Name: "parent", Type: 8, Kind: kind.Uint64}, a}} {
			op := fmt.Sprintf("op%d%d%s", i, len(args), args[0].Name)
			fire(op+"__start", args...)
			if i%2 == 0 {
				fire(op+"__end", args...)
			}
		}
	}
	w.Close()
	return b
}

// verbs are those that read recordings, with a place for a directory.
func recordingVerbs(dir string) [][]string {
	return [][]string{
		{"list"}, {"list", "-o", "json"},
		{"trace"}, {"trace", "-o", "json"}, {"trace", "-o", "csv"}, {"trace", "--show", "a,pid,executable", "-o", "csv"}, {"trace", "--show", "a,pid,executable"}, {"trace", "-w", "a == a", "-n", "20"}, {"trace", "-w", "id % 3 == 1 || id >> 1 > 4"},
		{"trace", "-o", "chrome", "-O", "-"}, {"trace", "-n", "1", "-o", "chrome", "-O", "-"}, {"trace", "-o", "perfetto", "-O", filepath.Join(dir, "timeline")},
		{"count", "*:*"}, {"count", "*:*", "--by", "a"}, {"count", "*:*", "--by", "id/0x10,pid", "-o", "json"},
		{"hist", "*:*", "a"}, {"hist", "*:*", "id", "--by", "a", "-o", "json"}, {"hist", "*:*", "a", "--linear", "0:100:10"},
		{"latency", "*:*"}, {"latency", "*:*", "--by", "a"}, {"latency", "*:*", "-o", "json"}, {"latency", "*:*__start", "*:*__end", "--key", "goroutine"}, {"latency", "*:*__start", "*:*__end", "--key", "a"},
		{"top"}, {"top", "-n", "1"}, {"top", "--by", "a"}, {"top", "-o", "json"},
		{"tree"}, {"tree", "-n", "1"}, {"tree", "-o", "json"}, {"tree", "--slowest", "3"},
		{"postmortem"}, {"postmortem", "-o", "json"},
	}
}

// requireReaders requires that each verb that reads events of recordings and pages is among the command lines.
func requireReaders(t *testing.T, lines [][]string) {
	t.Helper()
	for _, c := range rootCommand(&console.Console{}).Commands() {
		isTried := func(line []string) bool { return line[0] == c.Name() }
		require.True(t, !isReader(c) || slices.ContainsFunc(lines, isTried), "%s is missing", c.Name())
	}
}

// unprintable returns what would control a terminal, with what is around it, or "".
func unprintable(b []byte) string {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("%q", b[max(0, i-40):min(len(b), i+40)])
		}
		i += size
	}
	return ""
}

// fields returns the fields of a table. The ends of its records are the only ones of CR LF.
func fields(t *testing.T, table []byte) (all []byte) {
	records, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, len(records), bytes.Count(table, []byte("\r\n")))
	require.Equal(t, len(records), bytes.Count(table, []byte("\r")))
	for _, field := range slices.Concat(records...) {
		all = append(append(all, field...), '\n')
	}
	return all
}

// TestRecordingVerbs: every verb reads every type of argument, also under names and texts that would control a terminal, and no damage makes
// one panic, write without bounds, or write what controls a terminal.
func TestRecordingVerbs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	// run runs a verb, and reports its status.
	run := func(what string, content []byte, verb []string) (status int) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "timeline")))
		require.NoError(t, os.WriteFile(path, content, 0o600))
		var out, warnings bytes.Buffer
		defer func() {
			if reason := recover(); reason != nil {
				t.Fatalf("%s %v: %v\n%s", what, verb, reason, debug.Stack())
			}
		}()
		status = execute(append(verb[:len(verb):len(verb)], "--from", path), &out, &warnings)
		shown := out.Bytes()
		if slices.Contains(verb, "csv") {
			shown = fields(t, shown)
		}
		require.Empty(t, unprintable(shown), "%s %v", what, verb)
		require.Empty(t, unprintable(warnings.Bytes()), "%s %v", what, verb)
		require.Less(t, out.Len(), 4<<20, "%s %v", what, verb)
		requireObjects(t, verb, out.String())
		if what == "honest" && status != 0 {
			t.Errorf("%v: status %d: %s", verb, status, warnings.String())
		}
		return status
	}
	verbs := recordingVerbs(dir)
	requireReaders(t, verbs)
	var seeds [][]byte
	for _, foreign := range []bool{false, true} {
		for _, verb := range verbs {
			run("honest", crossing(foreign, ""), verb)
			run("hostile", crossing(foreign, control), verb)
		}
		seeds = append(seeds, crossing(foreign, ""), crossing(foreign, control))
	}
	mutants := 400
	if !testing.Short() {
		mutants = 3000
	}
	for i := range mutants {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		run(fmt.Sprint("mutant ", i), mutant(r, seeds[i%len(seeds)]), verbs[r.IntN(len(verbs))])
	}
}

// TestRecordingTimes: every verb ends, and neither a duration nor a rate overflows, at either end of the times that a damaged
// recording can have.
func TestRecordingTimes(t *testing.T) {
	dir := t.TempDir()
	for name, at := range map[string][2]time.Duration{
		"latest":   {5, math.MaxInt64},
		"second":   {5, math.MaxInt64 - time.Second},
		"earliest": {math.MinInt64, 5},
		"ends":     {math.MinInt64, math.MaxInt64},
		"minute":   {math.MaxInt64 - time.Minute, math.MaxInt64},
	} {
		var r eventtest.Recording
		start, end := r.Probe("p", "op__start", "id", "a"), r.Probe("p", "op__end", "id", "a")
		r.Chunk(0, 0, eventtest.Fired{Probe: start, At: at[0], Words: []uint64{1, 1}})
		r.Chunk(1, 0, eventtest.Fired{Probe: end, At: at[1], Words: []uint64{1, 1}}, eventtest.Fired{Probe: start, At: at[1], Words: []uint64{2, 2}})
		for _, verb := range append(recordingVerbs(dir), []string{"trace", "--since", "1s"}, []string{"trace", "--since", "2000000h"}) {
			out, said, status := readRecording(t, r.Bytes(), verb...)
			require.Zero(t, status, "%s %v: %s", name, verb, said)
			require.NotContains(t, out, `nanoseconds":-`, "%s %v", name, verb)
		}
	}
}

// mutant returns a damaged copy of a recording. Most of the damage is where it matters: in the heads, the table and the beginnings of records.
func mutant(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	le := binary.LittleEndian
	used := int(le.Uint64(b[recording.OffTableUsed:]))
	chunk := recording.HeadBytes + int(le.Uint64(b[16:])) + r.IntN(4)*recording.ChunkBytes
	if r.IntN(2) == 0 { // the type or the kind of an argument
		at := recording.HeadBytes
		for range r.IntN(60) {
			at += int(le.Uint32(b[at:]))
		}
		b[at+16+r.IntN(2)] = []byte{1, 2, 3, 4, 5, 6, 7, 16, 36, 40, 100, 248, 255}[r.IntN(13)]
	}
	for range r.IntN(4) {
		at := []int{
			r.IntN(128), recording.HeadBytes + r.IntN(used),
			chunk + r.IntN(recording.ChunkHeadBytes), chunk + recording.ChunkHeadBytes + r.IntN(400), r.IntN(len(b) - 8),
		}[r.IntN(5)]
		switch r.IntN(4) {
		case 0, 1:
			b[at] ^= 1 << r.IntN(8)
		case 2:
			le.PutUint64(b[at&^7:], []uint64{0, 1, 1 << 63, math.MaxInt64, math.MaxUint64, 1 << 32, 65472, 1 << 18, 24}[r.IntN(9)])
		case 3:
			le.PutUint32(b[at&^3:], []uint32{0, 1, 1 << 31, math.MaxUint32, 24, 65472, 256, 1 << 24}[r.IntN(8)])
		}
	}
	if r.IntN(10) == 0 {
		b = b[:r.IntN(len(b))]
	}
	return b
}

// readRecording runs a verb on a recording, and returns its output and what it says.
func readRecording(t *testing.T, content []byte, verb ...string) (out, said string, status int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	var b, warnings bytes.Buffer
	status = execute(append(verb, "--from", path), &b, &warnings)
	return b.String(), strings.ReplaceAll(warnings.String(), path, "FILE"), status
}

// TestRecordingHole: every verb says how many events are missing and where, and no operation is said to be open if its end may be among them.
func TestRecordingHole(t *testing.T) {
	var r eventtest.Recording
	const ms = time.Millisecond
	start, end, parent := r.Probe("p", "op__start", "id", "parent"), r.Probe("p", "op__end", "id", "parent"), uint64(0)
	fired := func(p *recording.Probe, at time.Duration, id uint64) eventtest.Fired {
		return eventtest.Fired{Probe: p, At: at, Words: []uint64{id, parent}}
	}
	// Shard 1 has the starts of 1 and 2, which have ended in chunks of shard 0 that are gone. 3 is open, and 4 has ended.
	r.Chunk(1, 0, fired(start, 10*ms, 1), fired(start, 11*ms, 2))
	r.Chunk(0, 800, fired(end, 90*ms, 9), fired(start, 92*ms, 3))
	parent = 3
	r.Chunk(2, 5, fired(start, 93*ms, 4), fired(end, 95*ms, 4))
	const between = "FILE has lost 805 events between its first one and "
	for _, verb := range [][]string{
		{"trace"}, {"trace", "-o", "chrome", "-O", "-"}, {"count", "p:*"}, {"hist", "p:*", "id"}, {"latency", "p:op"}, {"top"}, {"tree"},
	} {
		_, said, status := readRecording(t, r.Bytes(), verb...)
		require.Zero(t, status, said)
		require.Contains(t, said, between, "%v", verb)
	}
	out, _, _ := readRecording(t, r.Bytes(), "list")
	require.Contains(t, out, "; lost 805 events between its first one and ")
	for _, verb := range [][]string{{"count", "p:*"}, {"hist", "p:*", "id"}, {"latency", "p:op"}, {"list"}} {
		out, _, _ = readRecording(t, r.Bytes(), append(verb, "-o", "json")...)
		require.Contains(t, out, `{"lost":805,"between":805}`, verb)
	}
	out, _, _ = readRecording(t, r.Bytes(), "trace")
	require.Regexp(t, `(?m)id=3 parent=.*\n[0-9:.]+  805 events lost before this\n.*id=4 parent=3$`, out)
	out, _, _ = readRecording(t, r.Bytes(), "trace", "-w", "id == 3 || parent == 3", "-o", "json")
	require.Regexp(t, `(?m)"id":3,.*\n{"time":"1970-01-01T00:00:00.093Z","lost":805}\n.*"id":4`, out)

	out, _, _ = readRecording(t, r.Bytes(), "latency", "p:op")
	require.Contains(t, out, "3 starts without an end (0 still open, 3 with an end that may be lost)", "3 has begun before the last loss")
	parent = 0
	r.Chunk(0, 802, fired(start, 97*ms, 5))
	out, _, _ = readRecording(t, r.Bytes(), "latency", "p:op")
	require.Contains(t, out, "4 starts without an end (1 still open, 3 with an end that may be lost); 1 end without a start")
	require.Regexp(t, `OPEN FOR +PID +GOROUTINE +ID\n +0s +7 +5 +5\n +<=87ms +7 +5 +1\n +<=86ms +7 +5 +2\n +<=5ms +7 +5 +3\n`, out)
	out, _, _ = readRecording(t, r.Bytes(), "latency", "p:op", "-o", "json")
	require.Contains(t, out, `"open":1,"end_may_be_lost":3,"longest":[{"nanoseconds":0,"pid":7,"goroutine":5,"key":5,"by":{},"args":{}},{"nanoseconds":87000000,"end_may_be_lost":true,`)
	out, _, _ = readRecording(t, r.Bytes(), "top")
	require.Contains(t, out, "  1 open  ")
	require.Contains(t, out, "3 operations not counted as open, because their ends may be lost\n")
	require.Regexp(t, `OPEN FOR .*\n +0s .*\n +<=87ms `, out)
	out, _, _ = readRecording(t, r.Bytes(), "top", "-o", "json")
	require.Contains(t, out, `"open":1,"end_may_be_lost":3,"longest":[{"operation":"p:op","nanoseconds":0,`)
	out, said, _ := readRecording(t, r.Bytes(), "tree")
	require.Equal(t, 1, strings.Count(out, "not ended yet"))
	require.Contains(t, said, "3 trees not shown: the end of the root may have been lost")
	out, _, _ = readRecording(t, r.Bytes(), "trace", "-o", "chrome", "-O", "-")
	require.Equal(t, []int{3, 1, 1}, []int{strings.Count(out, `"end_may_be_lost":true`), strings.Count(out, `"open":true`), strings.Count(out, "805 events lost before this")})

	r.Head.Dropped = 2
	out, said, _ = readRecording(t, r.Bytes(), "latency", "p:op")
	require.Contains(t, out, "4 starts without an end (0 still open, 4 with an end that may be lost)")
	require.Contains(t, said, "FILE has lost 807 events: 805 between its first one and ")
	require.Contains(t, said, ", 2 at unknown times: the numbers are lower bounds")
}

// TestRecordingSentences: what a recording lacks is said, once.
func TestRecordingSentences(t *testing.T) {
	var r eventtest.Recording
	query, cache := r.Probe("p", "query__start", "id", "text"), r.Probe("p", "cache__start", "id", "key", "size")
	queried, cached, other := r.Probe("p", "query__end", "id", "rows"), r.Probe("p", "cache__end", "id"), r.Probe("q", "other")
	r.Chunk(0, 0, eventtest.Fired{Probe: query, At: 1, Words: []uint64{1}, Texts: []string{"SELECT"}}, eventtest.Fired{Probe: query, At: 2, Words: []uint64{2}, Texts: []string{"INSERT"}},
		eventtest.Fired{Probe: queried, At: 3, Words: []uint64{1, 20}}, eventtest.Fired{Probe: other, At: 4})
	r.Chunk(1, 0, eventtest.Fired{Probe: cache, At: 5, Words: []uint64{1, 77, 88}}, eventtest.Fired{Probe: cached, At: 6, Words: []uint64{1}}, eventtest.Fired{Probe: cache, At: 7, Words: []uint64{2, 78, 89}})
	whole := r.Bytes()
	for _, c := range []struct {
		verb         []string
		content      []byte
		out, said    string // regular expressions
		status, line int
	}{
		{[]string{"count", "p:*", "--by", "rows"}, whole, `(?m)^ +1  p:query__end  20$`, `^stapsdt: 3 of 4 probes have no rows and are left out\n$`, 0, 1},
		{[]string{"hist", "*:*", "rows"}, whole, `p:query__end rows`, `^stapsdt: 4 of 5 probes have no rows and are left out\n$`, 0, 1},
		{[]string{"count", "*:*", "-w", "rows > 1 && id > 0"}, whole, `1  p:query__end`, `^stapsdt: 4 of 5 probes have no rows and are left out\n$`, 0, 1},
		{[]string{"trace", "--show", "key"}, whole, `key=77`, `^stapsdt: 4 of 5 probes have no key and are left out\n$`, 0, 1},
		{[]string{"trace", "-w", "len(text) > 1"}, whole, `SELECT`, `^stapsdt: 4 of 5 probes have no text and are left out\n$`, 0, 1},
		{[]string{"hist", "p:query__start", "text"}, whole, ``, `a histogram takes integers, but this is a string`, 2, 0},
		{[]string{"count", "*:*", "--by", "none"}, whole, ``, `undefined: none`, 2, 0},
		{[]string{"top", "-w", "rows > 1"}, whole, `p:query`, `stapsdt: 2 of 4 probes have no rows and are left out\n`, 0, 0},
		{[]string{"tree", "-w", "rows > 1"}, whole, `p:query`, `stapsdt: 2 of 4 probes have no rows and are left out\n`, 0, 0},
		{[]string{"trace", "-o", "perfetto", "-O", filepath.Join(t.TempDir(), "timeline"), "-w", "rows > 1"}, whole, ``, `stapsdt: 2 of 4 probes have no rows and are left out\n`, 0, 0},
		{[]string{"latency", "p:*", "--by", "key"}, whole, `(?s)p:cache__start → p:cache__end key=77`, `^stapsdt: 2 of 4 probes have no key`, 0, 0},
		{[]string{"latency", "p:query__start", "p:nope"}, whole, ``, `no such probe: .*p:nope`, 3, 1},
		{[]string{"latency", "p:query__start", "p:query__ned"}, whole, ``, `no such probe: .*p:query__ned`, 3, 1},
		{[]string{"latency", "p:query__start", "q:other"}, whole, ``, `^stapsdt: no key pairs p:query__start with q:other: give --key arg0`, 2, 1},
		{[]string{"latency", "p:query", "--key", "id,pid,goroutine"}, whole, `(?s)count 1 .*ID, PID, GOROUTINE.* 2, 7, 5 `, `^$`, 0, 0},
		{[]string{"latency", "p:query", "--key", "id,text"}, whole, ``, `^stapsdt: p:query__end: undefined: text`, 2, 0},
		{[]string{"latency", "p:query", "--key", "id text"}, whole, ``, `^stapsdt: an operator such as == or && is missing before text`, 2, 0},
		{[]string{"top", "--key", "id,pid"}, whole, `p:query 2, 7`, `^$`, 0, 0},
		{[]string{"top", "--key", "id,rows"}, whole, ``, `^stapsdt: p:(query|cache)__start: undefined: rows`, 2, 0},
		{[]string{"tree", "--key", "id,pid", "--request", "2, 7"}, whole, `(?m)process 7  goroutine 5  key 2, 7\n.*\n.*p:query text="INSERT"`, `^$`, 0, 0},
		{[]string{"count", "*:*", "-w", "tid > 4"}, whole, ``, `undefined: tid.* goroutine`, 2, 0},
		{[]string{"trace", "-d", "5s"}, whole, ``, `-d`, 2, 1},
		{[]string{"count", "*:*", "-d", "1s"}, whole, ``, `-d`, 2, 1},
		{[]string{"count", "*:*"}, whole[:len(whole)-1000], `(?m)^ +1  q:other$`, fmt.Sprintf("^stapsdt: FILE has %d of the recording's %d bytes: the events in the others are missing\n$", len(whole)-1000, len(whole)), 0, 1},
		{[]string{"list"}, whole[:len(whole)-recording.ChunkBytes], `(?m)cache__end.*# 0 events$`, "FILE has", 0, 1},
		{[]string{"latency", "p:query"}, whole[:len(whole)-1000], `0 still open, 1 with an end that may be lost`, "FILE has", 0, 1},
		{[]string{"list"}, whole[:4100], ``, fmt.Sprintf("FILE: this is not a recording, or it is damaged: it has 4100 of %d bytes", len(whole)), 1, 1},
		{[]string{"trace"}, slices.Concat(whole[:8], []byte{9}, whole[9:]), ``, `FILE: .*another version of the format: 9\.0, but this program reads 1`, 1, 1},
	} {
		out, said, status := readRecording(t, c.content, c.verb...)
		require.Equal(t, c.status, status, "%v: %s", c.verb, said)
		require.Regexp(t, c.out, out, "%v", c.verb)
		require.Regexp(t, c.said, said, "%v", c.verb)
		require.True(t, c.line == 0 || strings.Count(said, "\n") == c.line, "%v: %s", c.verb, said)
	}
	out, _, _ := readRecording(t, whole, "latency", "p:*")
	require.Regexp(t, `(?s)p:query__start → p:query__end\n.*OPEN FOR +PID +GOROUTINE +ID +text\n +5ns +7 +5 +2 +"INSERT"\n`, out)
	require.Regexp(t, `(?s)p:cache__start → p:cache__end\n.*OPEN FOR +PID +GOROUTINE +ID +key +size\n +0s +7 +5 +2 +78 +89\n`, out)
	to := &console.Console{Err: io.Discard}
	require.Equal(t, exitRights, fail(to, rootCommand(to), &fs.PathError{Op: "open", Path: "file", Err: fs.ErrPermission}))
}

// TestRecordingElapsed: every format shows the time since the start after the arguments of the end, and those of the start only if an
// expression names them.
func TestRecordingElapsed(t *testing.T) {
	var r eventtest.Recording
	start, end := r.Probe("p", "op__start", "id", "text", "size"), r.Probe("p", "op__end", "id", "status")
	var events []eventtest.Fired
	for id, took := range []time.Duration{5, 70, 90} {
		at := time.Duration(id) * time.Second
		events = append(events, eventtest.Fired{Probe: start, At: at, Words: []uint64{uint64(id), 7}, Texts: []string{[]string{"a", "b", "b"}[id]}},
			eventtest.Fired{Probe: end, At: at + took*time.Millisecond, Words: []uint64{uint64(id), 200}})
	}
	r.Chunk(0, 0, events...)
	for _, c := range []struct {
		verb []string
		out  string // a regular expression
	}{
		{[]string{"trace", "p:op__end", "-w", `elapsed > 50ms && text == "b"`, "-n", "1"}, `ARGUMENTS\n.* p:op__end +id=1 status=200 elapsed=70ms\n$`},
		{[]string{"trace", "p:op__end", "-w", `elapsed > 80ms && start.text == "b"`, "-o", "json"}, `^{.*"args":{"id":2,"status":200,"elapsed":90000000}}\n$`},
		{[]string{"trace", "p:op__end", "-w", `elapsed > 80ms && text == "b"`, "-o", "csv"}, `comm,id,status,elapsed\r\n.*,2,200,90000000\r\n$`},
		{[]string{"trace", "p:op__end", "--show", "start.text, status, elapsed"}, `(?s) start.text="a" status=200 elapsed=5ms\n.* start.text="b" status=200 elapsed=90ms\n$`},
		{[]string{"count", "p:op__end", "--by", "text", "--sum", "elapsed"}, `(?s)^COUNT +SUM OF elapsed +PROBE +text\n +2 +160ms +p:op__end +"b"\n +1 +5ms +p:op__end +"a"\n$`},
		{[]string{"count", "p:*", "-w", "elapsed >= 70ms"}, `(?s)^COUNT +PROBE\n +2 +p:op__end\n$`},
		{[]string{"hist", "p:op__end", "elapsed", "--by", "text", "--table"}, `(?s)COUNT .*\n +2 +80ms .* 90ms +"b"\n +1 +5ms .* +"a"\n$`},
		{[]string{"hist", "p:op__end", "elapsed", "--by", "text", "-o", "json"}, `"by":{"text":"b"},"count":2,"average":80000000,"p50":70000000,.*"max":90000000,`},
	} {
		out, said, status := readRecording(t, r.Bytes(), c.verb...)
		require.Zero(t, status, "%v: %s", c.verb, said)
		require.Regexp(t, c.out, out, "%v", c.verb)
	}
}

// TestRecordingWindow: --since and --until select the time of the events, and what is open is what was open then.
func TestRecordingWindow(t *testing.T) {
	var r eventtest.Recording
	start, end := r.Probe("p", "op__start", "id"), r.Probe("p", "op__end", "id")
	var events []eventtest.Fired
	for i := range uint64(10) { // id 0 from 0 s to 11 s, id 1 from 10 s to 21 s, and so on
		at := time.Duration(i) * 10 * time.Second
		events = append(events, eventtest.Fired{Probe: start, At: at, Words: []uint64{i}})
		if i > 0 {
			events = append(events, eventtest.Fired{Probe: end, At: at + time.Second, Words: []uint64{i - 1}})
		}
	}
	r.Chunk(0, 0, events...)
	for _, c := range []struct {
		flags  []string
		events int
	}{
		{nil, 19}, {[]string{"--since", "21s"}, 6}, {[]string{"--until", "81s"}, 2}, {[]string{"--since", "1970-01-01T00:00:50Z"}, 10},
		{[]string{"--since", "1970-01-01T00:00:50Z", "--until", "31s"}, 3}, {[]string{"--since", time.Unix(80, 0).Format("15:04:05")}, 4}, {[]string{"--until", time.Unix(60, 0).Format("2006-01-02 15:04:05")}, 12},
	} {
		out, said, status := readRecording(t, r.Bytes(), append([]string{"trace", "-o", "json"}, c.flags...)...)
		require.Zero(t, status, said)
		require.Equal(t, c.events, strings.Count(out, "\n"), "%v", c.flags)
		out, _, _ = readRecording(t, r.Bytes(), append([]string{"list", "-o", "json"}, c.flags...)...)
		listed := 0
		for line := range strings.Lines(out) {
			var one struct{ Events int }
			require.NoError(t, json.Unmarshal([]byte(line), &one))
			listed += one.Events
		}
		require.Equal(t, c.events, listed, "%v", c.flags)
	}
	out, _, _ := readRecording(t, r.Bytes(), "latency", "p:op", "--until", "36s")
	require.Regexp(t, `1 start without an end \(1 still open\); 0 ends without a start\nOPEN FOR .*\n +1s +7 +5 +5\n`, out, "at 55 s, the last event was at 51 s")
	for _, args := range [][]string{{"trace", "--from", "x", "--since", "yesterday"}, {"trace", "--since", "10s", "-a", "p:*"}, {"count", "--until", "10s", "-a", "p:*"}} {
		require.NotZero(t, execute(args, io.Discard, io.Discard), args)
	}
	_, said, status := readRecording(t, r.Bytes(), "trace", "--since", "yesterday")
	require.Equal(t, exitUsage, status)
	require.Contains(t, said, "--since takes a time such as")
}

// TestRecordingClocks: the clock that nobody sets relates the events of processes of one boot. Recordings of different boots are related by
// the time of day, and this is said. Processes of two containers, whose PIDs are equal, are drawn side by side.
func TestRecordingClocks(t *testing.T) {
	const said = "from different or unknown boots"
	from := make([]string, 4)
	// record makes two recordings whose operations alternate. In the first one, the time of day is an hour later.
	record := func(boots [2]byte) {
		for i := range 2 {
			r := eventtest.Recording{Realtime: time.Duration(1-i) * time.Hour}
			r.Head.Start, r.Head.Boot[0] = uint64(i+1), boots[i]
			start, end := r.Probe("p", fmt.Sprint("op", i, "__start"), "id"), r.Probe("p", fmt.Sprint("op", i, "__end"), "id")
			var events []eventtest.Fired
			for id := range uint64(3) {
				at := time.Duration(2*int(id)+i) * time.Second
				events = append(events, eventtest.Fired{Probe: start, At: at, Words: []uint64{id}}, eventtest.Fired{Probe: end, At: at + 1, Words: []uint64{id}})
			}
			r.Chunk(0, 0, events...)
			from[2*i], from[2*i+1] = "--from", filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(from[2*i+1], r.Bytes(), 0o600))
		}
	}
	read := func(verb ...string) (out, warnings string) {
		var b, w bytes.Buffer
		require.Zero(t, execute(append(verb, from...), &b, &w), w.String())
		return b.String(), w.String()
	}
	// draw returns the operations in the order of their starts, with their processes.
	draw := func() (all []string, warnings string) {
		out, warnings := read("trace", "-o", "chrome", "-O", "-")
		type drawn struct {
			Name, Ph string
			Ts       float64
			PID      int
			Args     struct{ Name string }
		}
		var file struct{ TraceEvents []drawn }
		require.NoError(t, json.Unmarshal([]byte(out), &file))
		slices.SortStableFunc(file.TraceEvents, func(a, b drawn) int { return cmp.Compare(a.Ts, b.Ts) })
		names := map[int]string{}
		for _, e := range file.TraceEvents {
			if e.Name == "process_name" {
				names[e.PID] = e.Args.Name
			} else if e.Ph == "X" {
				all = append(all, fmt.Sprint(e.Name, " ", names[e.PID], " ", time.Duration(1000*e.Ts)))
			}
		}
		require.Len(t, names, 2)
		return all, warnings
	}
	record([2]byte{1, 1})
	all, warnings := draw()
	require.Equal(t, []string{"p:op0 app 7 0s", "p:op1 app 7 1s", "p:op0 app 7 2s", "p:op1 app 7 3s", "p:op0 app 7 4s", "p:op1 app 7 5s"}, all)
	require.NotContains(t, warnings, said)
	record([2]byte{1, 2})
	all, warnings = draw()
	require.Equal(t, []string{"p:op1 app 7 0s", "p:op1 app 7 2s", "p:op1 app 7 4s", "p:op0 app 7 59m59s", "p:op0 app 7 1h0m1s", "p:op0 app 7 1h0m3s"}, all)
	require.Contains(t, warnings, said)
	for _, verb := range []string{"top", "tree", "trace"} {
		out, warnings := read(verb)
		require.Contains(t, warnings, said, verb)
		require.NotContains(t, out, "of the last 1h", "top shows the last second")
	}
}
