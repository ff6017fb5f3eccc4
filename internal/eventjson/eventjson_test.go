package eventjson

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// events observes a provider.
func events(t *testing.T, p *stapsdt.Provider) *[]*stapsdt.Event {
	var list []*stapsdt.Event
	t.Cleanup(p.Observe(func(e *stapsdt.Event) { list = append(list, e.Clone()) }))
	return &list
}

func TestAppend(t *testing.T) {
	p := stapsdt.NewProvider("my\u00fcapp")
	named := stapsdt.NewProbe3[string, int32, bool](p, "named", "path", "status", "ok")
	none := stapsdt.NewProbe0(p, "none")
	other := stapsdt.NewProbe6[uint64, float64, time.Duration, unsafe.Pointer, []byte, float32](p, "other")
	list := events(t, p)
	before := time.Now()
	named.Fire("/</a>\"\x01\xff", -5, true)
	none.Fire()
	other.Fire(math.MaxUint64, math.Inf(-1), -time.Second, nil, []byte("x\u2028"), 0.5)
	after := time.Now()
	enc := NewEncoder()
	var texts []string
	for _, e := range *list {
		line := enc.Append(nil, e, math.MaxInt)
		var event struct {
			Time     time.Time
			Provider string
			Probe    string
			PID      int
			Args     map[string]any
		}
		d := json.NewDecoder(strings.NewReader(string(line)))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&event), "%s", line)
		require.WithinRange(t, event.Time, before.Add(-time.Second), after.Add(time.Second))
		require.Equal(t, time.UTC, event.Time.Location())
		require.Equal(t, "my\u00fcapp", event.Provider)
		require.Equal(t, e.Probe().Name(), event.Probe)
		require.Equal(t, os.Getpid(), event.PID)
		_, args, _ := strings.Cut(string(line), `"args":`)
		texts = append(texts, args)
	}
	require.Equal(t, []string{
		`{"path":"/\u003c/a\u003e\"\u0001` + "\ufffd" + `","status":-5,"ok":true}}`,
		`{}}`,
		`{"arg0":18446744073709551615,"arg1":"-Inf","arg2":-1000000000,"arg3":"0x0","arg4":"x\u2028","arg5":0.5}}`,
	}, texts)
}

// TestTimes: each event has its own time, whichever second and probe the event before it had.
func TestTimes(t *testing.T) {
	times := Times()
	heads := []*Head{NewHead(&recording.Probe{Provider: "p", Name: "a"}, 1), NewHead(&recording.Probe{Provider: "p", Name: "b"}, 1)}
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.FixedZone("", 3600))
	for i, d := range []time.Duration{0, 0, 1, time.Second - 1, time.Second, time.Hour, -time.Nanosecond, 1e9, 365 * 24 * time.Hour} {
		line := heads[i%2].Begin(nil, &times, at.Add(d))
		want := at.Add(d).UTC().Format(`{"time":"2006-01-02T15:04:05.000000000Z07:00","provider":`)
		require.Equal(t, want, string(line[:len(want)]))
	}
}

func BenchmarkAppend(b *testing.B) {
	p := stapsdt.NewProvider("bench")
	probe := stapsdt.NewProbe2[string, int32](p, "event", "path", "status")
	var event *stapsdt.Event
	b.Cleanup(p.Observe(func(e *stapsdt.Event) { event = e.Clone() }))
	probe.Fire("/items/17", 200)
	enc := NewEncoder()
	var line []byte
	for b.Loop() {
		line = enc.Append(line[:0], event, math.MaxInt)
	}
}

// FuzzString: what was written is read back.
func FuzzString(f *testing.F) {
	f.Add("a\"\\\n\t\r\x00\x7f<>&\u2028\xff\xed\xa0\x80\U0001f600")
	f.Fuzz(func(t *testing.T, s string) {
		text := AppendString(nil, s)
		require.True(t, utf8.Valid(text))
		var got string
		require.NoError(t, json.Unmarshal(text, &got))
		want, err := json.Marshal(s)
		require.NoError(t, err)
		var same string
		require.NoError(t, json.Unmarshal(want, &same))
		require.Equal(t, same, got)
	})
}

// FuzzFloat: every float64 is JSON, and exact.
func FuzzFloat(f *testing.F) {
	f.Add(uint64(1))
	f.Add(math.Float64bits(1e300))
	f.Fuzz(func(t *testing.T, bits uint64) {
		want := math.Float64frombits(bits)
		text := kind.AppendJSON(nil, kind.Float, kind.None, 8, bits)
		if math.IsNaN(want) || math.IsInf(want, 0) {
			require.True(t, json.Valid(text))
			return
		}
		var got float64
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, want, got)
	})
}
