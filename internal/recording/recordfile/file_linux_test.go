package recordfile

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRoom: the contents of files count as room, and the group that allows the least counts.
func TestRoom(t *testing.T) {
	mount := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(mount, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(mount, name), []byte(text), 0o644))
	}
	room := func() int64 {
		n, _ := least(math.MaxInt64, "", mount, "/pod/container", v2)
		return n
	}
	require.EqualValues(t, int64(math.MaxInt64), room())
	write("pod/memory.max", "max\n")
	write("pod/memory.current", "1000\n")
	write("pod/container/memory.max", "1000\n")
	write("pod/container/memory.current", "990\n")
	require.EqualValues(t, 10, room())
	write("pod/container/memory.stat", "anon 10\ninactive_file 900\nactive_file 80\n")
	require.EqualValues(t, 910, room())
	write("pod/memory.max", "1100\n")
	require.EqualValues(t, 100, room())
}

// TestAvailable: without a control group, the machine's memory is the room.
func TestAvailable(t *testing.T) {
	require.EqualValues(t, 15<<20, available("MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:   15360 kB\nBuffers: 0 kB\n"))
	for _, text := range []string{"", "MemTotal: 1 kB\n", "MemAvailable: many kB\n", "MemAvailable:\n"} {
		require.EqualValues(t, -1, available(text))
	}
	var machine unix.Sysinfo_t
	require.NoError(t, unix.Sysinfo(&machine))
	room, file := MemoryRoom()
	require.LessOrEqual(t, uint64(room), uint64(machine.Totalram)*uint64(machine.Unit))
	require.NotEmpty(t, file)
	shared, err := os.Open("/dev/shm")
	require.NoError(t, err)
	defer shared.Close()
	require.ErrorContains(t, checkRoom(shared, int64(machine.Totalram)*int64(machine.Unit)), "is memory of the program, and "+file+" leaves")
}

// TestHeadOfProcess: the texts of /proc are decoded.
func TestHeadOfProcess(t *testing.T) {
	require.EqualValues(t, 4242, startTime("1 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 7 8"))
	require.Zero(t, startTime("1 (a"))
	require.Equal(t, [16]byte{1, 2, 15: 255}, bootID("01020000-0000-0000-0000-0000000000ff\n"))
	require.Zero(t, bootID("none"))
}

// TestTidy: the oldest of more than Keep recordings goes, however the path is written.
func TestTidy(t *testing.T) {
	t.Chdir(t.TempDir())
	for i := range Keep {
		require.NoError(t, os.WriteFile(fmt.Sprintf("app.rec-2020010%dT000000.000000000Z", i+1), []byte(recording.Magic), 0o600))
	}
	require.NoError(t, os.WriteFile("app.rec.4242", []byte(recording.Magic), 0o600))
	require.Equal(t, "app.rec-20200101T000000.000000000Z", tidy("./app.rec"))
}
