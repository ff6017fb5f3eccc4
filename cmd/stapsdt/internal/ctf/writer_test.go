//go:build linux

package ctf

import (
	"encoding/binary"
	"math"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestWriter: babeltrace2 reads values of every kind, whatever names and texts a program has, in packets of which each says how
// many events were lost.
func TestWriter(t *testing.T) {
	babeltrace := testenv.NeedsTool(t, "babeltrace2", "babeltrace2")
	dir := filepath.Join(t.TempDir(), "trace")
	w, err := create(dir)
	require.NoError(t, err)
	p := &recording.Probe{Provider: "p\"; }\n", Name: "\\é", Args: []recording.Arg{
		{Name: "a_b_arg3", Type: -8, Kind: recording.Int64}, {Name: "", Type: 8, Kind: recording.Uint64}, {Name: "a b", Type: 40, Kind: recording.Float64},
		{Name: "a;b", Type: recording.TypeString, Kind: recording.String}, {Name: "é", Type: 1, Kind: recording.Bool},
		{Name: "event", Type: -8, Kind: recording.Duration}, {Name: "p", Type: 8, Kind: recording.Pointer}, {Name: "", Type: 8, Kind: recording.Uint64},
	}}
	text := "x\x00\n\"\xff"
	minus := int64(-1)
	var body []byte
	for _, word := range []uint64{uint64(minus), math.MaxUint64, math.Float64bits(1.5), uint64(len(text)), 1, uint64(time.Second), 0xff, 7} {
		body = binary.LittleEndian.AppendUint64(body, word)
	}
	body = append(append(body, text...), 0, 0, 0)
	class := w.class(p)
	lost := uint64(0)
	for n := range 3 {
		e := &recording.Event{PID: 1, TID: 2, Goroutine: 3, Realtime: int64(time.Hour) + int64(n)}
		require.NoError(t, e.Decode(p, body))
		at := []time.Duration{5, 7, 6}[n] // the last one comes late
		require.NoError(t, w.event(class, at, e, "program\x00", nil))
		lost += uint64(n)
		require.NoError(t, w.flush(lost))
	}
	require.NoError(t, w.close(lost))
	out, err := exec.Command(babeltrace, "--clock-cycles", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	const event = `p_; }_:__: { pid = 1, tid = 2, goroutine = 3, procname = "program` + "\ufffd" + `" }, { a_b_arg3 = -1, arg1 = 18446744073709551615, a_b = 1.5, ` +
		`a_b_arg3_arg3 = "x` + "\ufffd" + `\n\"` + "\xff" + `", _ = 1, event = 1000000000, p = 0xFF, arg7 = 7 }`
	require.Contains(t, string(out), "[00000000000000000005] (+????????????) "+event)
	require.Contains(t, string(out), "[00000000000000000007] (+000000000002) "+event)
	require.Contains(t, string(out), "[00000000000000000007] (+000000000000) "+event)
	require.Contains(t, string(out), "Tracer discarded 1 event")
	require.Contains(t, string(out), "Tracer discarded 2 events")
}
