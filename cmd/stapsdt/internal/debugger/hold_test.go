//go:build linux

package debugger

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets this program play the commands that run alone.
func TestMain(m *testing.M) {
	switch os.Getenv("STAPSDT_TEST_DEBUGGER") {
	case "greedy":
		greedy(minMemory*4/3, 0)
		return
	case "greedier":
		greedy(1<<30, watchInterval/20)
		return
	case "wait":
		waitBesideAnother()
		return
	case "end":
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := Wait(ctx, &console.Console{Err: os.Stderr}, Budget{}, time.Hour); err != nil {
			panic(err)
		}
		return
	case "other":
		time.Sleep(otherTime)
		Use() // in the middle of the time that is waited
		return
	}
	os.Exit(m.Run())
}

// play returns this program as a command.
func play(as string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "STAPSDT_TEST_DEBUGGER="+as)
	return c
}

// TestHold: a recording that is held can be sent from another process's file, as often as it takes.
func TestHold(t *testing.T) {
	f, err := NewMemory(Budget{}, 800000)
	t.Cleanup(func() { held.Store(0) })
	require.NoError(t, err)
	defer f.Close()
	content := strings.Repeat("recorded", 100000)
	_, err = f.WriteString(content)
	require.NoError(t, err)
	gone, end := context.WithCancel(context.Background())
	r, w := io.Pipe()
	held := make(chan error)
	go func() { held <- Hold(gone, w, f) }()
	var said Recording
	require.NoError(t, json.NewDecoder(r).Decode(&said))
	sum := sha256.Sum256([]byte(content))
	assert.Equal(t, Recording{os.Getpid(), int(f.Fd()), int64(len(content)), hex.EncodeToString(sum[:])}, said)
	for range 2 {
		var sent bytes.Buffer
		require.NoError(t, Send(&sent, said.PID, said.FD))
		unpacked, err := gzip.NewReader(&sent)
		require.NoError(t, err)
		got, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	select {
	case <-held:
		t.Fatal("it was not held until nobody was there any longer")
	default:
	}
	end()
	require.NoError(t, <-held)
	require.Error(t, Send(io.Discard, said.PID, 9999))
}
