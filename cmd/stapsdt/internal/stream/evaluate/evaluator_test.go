package evaluate

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestExpressions: expressions have the arguments by names and numbers, and what is known about the origin of an event.
// A value that divides by zero, or needs the end of a text that was cut, is a fault.
func TestExpressions(t *testing.T) {
	var r eventtest.Recording
	p := r.Probe("p", "x", "n", "text", "zero", "text2")
	long := strings.Repeat("a", 63) + "é"
	r.Chunk(0, 0, eventtest.Fired{Probe: p, Words: []uint64{41, 0}, Texts: []string{`a "b"`, long}})
	for e := range eventtest.Events(t, eventtest.Read(t, bytes.NewReader(r.Bytes()))) {
		v := NewEvaluator(e.Probe)
		v.At(e)
		for cut, wants := range []map[string]string{{
			"n": "41", "arg0": "41", "n + 1": "42", "text": `"a \"b\""`, "arg1": `"a \"b\""`, "len(text)": "5", `text == "a \"b\""`: "true",
			"pid": "7", "goroutine": "5", "executable": `"app"`, "text2": `"` + long[:63] + `"…`, "len(text2)": "65",
			"n / zero": "fault", "zero == 0 || n / zero == 1": "true", "zero != 0 && n / zero == 1": "false",
		}, { // only the beginning of text is known
			`text != "a"`: "true", `strings.HasPrefix(arg1, "a")`: "true", `strings.HasSuffix(text, "b")`: "fault", `text == text2`: "fault",
			`!strings.Contains(arg1, "x")`: "fault", "len(text) > 3": "fault", "len(text2) > 3": "true", "n == 41 || len(text) > 3": "true",
			`text == "a \"b\""`: "fault", `text <= "a \"b\" c"`: "fault", `strings.HasPrefix(text, "a \"b\" c")`: "fault", `text < "a"`: "false",
			"n == 2 || len(text) > 3": "fault", "n == 41 && len(text) > 3": "fault", "n == 2 && len(text) > 3": "false",
		}} {
			e.Cut = uint64(cut) << 1
			for src, want := range wants {
				one, item, err := v.Item(src)
				require.NoError(t, err)
				value, fault := v.Value(one, item)
				got := "fault"
				if !fault {
					got = value.ForText()
				}
				require.Equal(t, want, got, src)
			}
		}
	}
}

// TestVariables: an argument hides what has its name, and a recording that lacks threads or goroutines has no names
// for them.
func TestVariables(t *testing.T) {
	p := &recording.Probe{Args: []recording.Arg{{Name: "tid", Type: 8, Kind: kind.Uint64}, {Name: "arg0", Type: -4, Kind: kind.Int64}}}
	require.Equal(t, "tid uint64, arg0 int32", Signature(p))
	v := NewEvaluator(p)
	v.At(eventtest.Event(0, p, 4, 6))
	for src, want := range map[string]uint64{"tid": 4, "arg0": 6, "arg1": 6, "goroutine": 1} {
		one, err := v.ParseInteger(src, "a sum")
		require.NoError(t, err)
		bits, _ := v.Number(one)
		require.Equal(t, want, bits, src)
	}
	for i, p := range []*recording.Probe{{}, {NoThread: true}, {NoGoroutine: true}} {
		v := NewEvaluator(p)
		require.Equal(t, []bool{i != 1, i != 2, true}, []bool{v.Has("tid"), v.Has("goroutine"), v.Has("pid")})
	}
}

// TestMeasure: an event counts if its condition is true and all of its values are known. One for which an expression
// has no value is a fault, unless the condition refuses it.
func TestMeasure(t *testing.T) {
	p := &recording.Probe{Args: []recording.Arg{{Name: "n", Type: 8, Kind: kind.Uint64}, {Name: "d", Type: -8, Kind: kind.Int64}}}
	for _, test := range []struct {
		c             query.Counting
		d             int64
		counts, fault bool
	}{
		{query.Counting{Where: "n == 2", Value: "10 / d"}, 0, false, false},
		{query.Counting{Where: "10 / d == 5"}, 0, false, true},
		{query.Counting{Value: "10 / d"}, 0, false, true},
		{query.Counting{Value: "n", By: []string{"n", "n % arg1"}}, 0, false, true},
		{query.Counting{Value: "d"}, -2, true, false},
		{query.Counting{Value: "d", Rises: true}, -2, false, true},
		{query.Counting{Value: "n", Rises: true}, 0, true, false}, // it is large, and not negative
	} {
		m, err := NewMeasure(p, test.c)
		require.NoError(t, err)
		counts, fault := m.Take(eventtest.Event(0, p, 1<<63, uint64(test.d)))
		require.Equal(t, [2]bool{test.counts, test.fault}, [2]bool{counts, fault}, "%+v", test)
	}
}

// TestShown: texts are quoted unless they are names, no text reaches the terminal unescaped, a number that could not be
// read is no 0, and a value that does not exist is a dash in text and absent from JSON.
func TestShown(t *testing.T) {
	var r eventtest.Recording
	p := r.Probe("p", "x", "id", "n", "text", "text2")
	r.Chunk(0, 0, eventtest.Fired{Probe: p, Words: []uint64{3, 0}, Texts: []string{"a\x1b[7m \"b\"", "c\x1b[7m d"}})
	for e := range eventtest.Events(t, eventtest.Read(t, bytes.NewReader(r.Bytes()))) {
		e.Probe.Args[3].Bare, e.Unreadable = true, 0b0010
		all := append(ShowAll(Arguments{}.Of(e)), Show("none\n", &Value{}))
		require.Equal(t, `id=3 n=<unreadable> text="a\x1b[7m \"b\"" text2=c�[7m d none�=-`, Join(all))
		text, _ := json.Marshal(Object(all))
		require.Equal(t, `{"id":3,"n":null,"text":"a\u001b[7m \"b\"","text2":"c\u001b[7m d"}`, string(text))
		require.Equal(t, "id=3", Join(ShowAll(Arguments{}.Of(e, "text2", "text", "n"))))
	}
}

// TestNoExpression: a probe without expressions takes no memory for variables, of which each of thousands of programs
// would have its own.
func TestNoExpression(t *testing.T) {
	m, err := NewMeasure(&recording.Probe{Args: []recording.Arg{{Name: "n", Type: 8}}}, query.Counting{})
	require.NoError(t, err)
	counts, fault := m.Take(&recording.Event{})
	require.True(t, counts)
	require.False(t, fault)
	require.Nil(t, m.vars)
}

// TestWhole: an argument is cut only if it is longer than what is shown, but a text in a key that
// has all of the room also stands for longer ones, as in the kernel.
func TestWhole(t *testing.T) {
	for _, size := range []int{value.TextSize, TextSize} {
		for long := range 2 {
			var r eventtest.Recording
			p := r.Probe("p", "x", "text")
			text := strings.Repeat("a", size+long)
			r.Chunk(0, 0, eventtest.Fired{Probe: p, Texts: []string{text}})
			for e := range eventtest.Events(t, eventtest.Read(t, bytes.NewReader(r.Bytes()))) {
				v := NewEvaluator(e.Probe)
				v.At(e)
				arg := v.Arg(&ArgItems(p, size)[0], 0)
				require.Equal(t, long > 0, arg.Cut)
				require.Equal(t, text[:size], arg.Text)
				one, item, err := v.Item("text")
				require.NoError(t, err)
				key, _ := v.Value(one, item)
				require.True(t, key.Cut)
				require.Equal(t, text[:value.TextSize], key.Text)
			}
		}
	}
}
