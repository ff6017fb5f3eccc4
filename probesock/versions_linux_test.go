package probesock

import (
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/region"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// conversation returns the messages of a side, as a version of it has sent them. Each is a line of
// hexadecimal digits, and what follows # is a comment.
func conversation(t *testing.T, file string) (messages [][]byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "internal", "wire", "testdata", file))
	require.NoError(t, err)
	for line := range strings.Lines(regexp.MustCompile(`#.*`).ReplaceAllString(string(text), "")) {
		if digits := strings.Join(strings.Fields(line), ""); digits != "" {
			b, err := hex.DecodeString(digits)
			require.NoError(t, err)
			messages = append(messages, b)
		}
	}
	require.NotEmpty(t, messages)
	return messages
}

// TestFrozenWatcher: what watchers of other minor versions have sent is answered.
func TestFrozenWatcher(t *testing.T) {
	l := listening(t)
	p := stapsdt.NewProvider("frozen")
	defer p.Close()
	probe := stapsdt.NewProbe1[int](p, "event", "n")
	want := []wire.Kind{wire.KindHello, wire.KindProbes, wire.KindDone, wire.KindWatching, wire.KindDone}
	for file, want := range map[string][]wire.Kind{
		"watcher-1.0.hex":   want,
		"watcher-later.hex": append([]wire.Kind{wire.KindHello, wire.KindError}, want[1:]...),
	} {
		t.Run(file, func(t *testing.T) {
			c := dialed(t, l.path)
			require.NoError(t, c.SetDeadline(time.Now().Add(testenv.Patience)))
			var got []wire.Kind
			for _, message := range conversation(t, file) {
				_, err := c.Write(message)
				require.NoError(t, err)
				for {
					kind, _, err := wire.Read(c)
					require.NoError(t, err)
					got = append(got, kind)
					require.Equal(t, kind == wire.KindWatching, probe.Enabled())
					if kind != wire.KindProbes {
						break
					}
				}
			}
			require.Equal(t, want, got)
		})
	}
}

// TestFrozenProgram: a watcher understands what programs of other minor versions have sent.
func TestFrozenProgram(t *testing.T) {
	for _, file := range []string{"program-1.0.hex", "program-later.hex"} {
		t.Run(file, func(t *testing.T) {
			ours, theirs := testenv.SocketPair(t)
			fd, err := region.CreateMemory("frozen")
			require.NoError(t, err)
			defer unix.Close(fd)
			require.NoError(t, unix.Ftruncate(fd, 1<<20))
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
			require.NoError(t, err)
			messages := conversation(t, file)
			go func() {
				for _, message := range messages {
					var rights []byte
					if wire.Kind(message[4]) == wire.KindWatching {
						rights = unix.UnixRights(fd)
					}
					if _, _, err := theirs.WriteMsgUnix(message, rights, nil); err != nil {
						return
					}
				}
			}()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			c, err := wire.NewClient(ours, testenv.Patience)
			require.NoError(t, err)
			require.EqualValues(t, 4711, c.Hello().PID)
			require.EqualValues(t, 99, c.Hello().Start)
			all, err := c.List()
			require.NoError(t, err)
			require.Equal(t, []*recording.Probe{{Provider: "frozen", Name: "event", Args: []recording.Arg{{Name: "n", Type: -8, Kind: kind.Int64}}}}, all)
			memory, err := c.Watch(wire.Watch{Bytes: 1 << 20})
			require.NoError(t, err)
			defer memory.Close()
			n, err := memory.ReadAt(make([]byte, 1), 1<<20-1)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.NoError(t, c.End())
		})
	}
}
