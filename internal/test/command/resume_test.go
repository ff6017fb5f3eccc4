//go:build linux && (amd64 || arm64)

package command_test

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// token is that of a request of TestInPodResume.
var token = rand.Text()

// startSending starts a request for the events of a subject in a pod, which goes on for a time without a connection, as a user.
func startSending(t *testing.T, p *tracetest.Process, id, resume string) *tracetest.Process {
	q := tracetest.Command(t, unprivileged(t, stapsdt(t), "inpod", "ask", "--container", id, "--resume", resume, "--",
		"record", "--size=1048576", "--increments", "--", "subject:request__done"))
	q.Say(token)
	tell(p, "await")
	return q
}

// resume returns a command that resumes the stream of the request, from its beginning: its input has the token and an empty frame.
func resume(t *testing.T, cmd *exec.Cmd) (input io.WriteCloser) {
	frame := make([]byte, 8+24)
	binary.LittleEndian.PutUint32(frame, 24)
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], crc32.MakeTable(crc32.Castagnoli)))
	cmd.Stdout, cmd.Stderr = &bytes.Buffer{}, &bytes.Buffer{}
	input = tracetest.Must(cmd.StdinPipe())(t)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_, err := input.Write(append([]byte(token+"\n"), frame...))
	require.NoError(t, err)
	return input
}

// unframe returns the recording that frames describe, and whether they have its end.
func unframe(t *testing.T, frames []byte) (recording []byte, isWhole bool) {
	recording = make([]byte, 4<<20)
	for le := binary.LittleEndian; len(frames) > 0; {
		body := frames[8:][:le.Uint32(frames)]
		require.Equal(t, le.Uint32(frames[4:]), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		frames = frames[8+len(body):]
		isWhole = le.Uint64(body[16:])&1 != 0
		for b := body[24:]; len(b) > 0; {
			n := le.Uint64(b[8:])
			copy(recording[le.Uint64(b):], b[16:][:n])
			b = b[16+n:]
		}
	}
	return recording, isWhole
}

// TestInPodResume: a request that sends its recording goes on without a connection, and only its user gets what it has
// recorded. It ends, and nothing is attached, when the user ends it, or after a time.
func TestInPodResume(t *testing.T) {
	t.Parallel()
	p, id := startContained(t)

	q := startSending(t, p, id, "1h")
	tell(p, "fire 3")
	q.Hangup()
	tell(p, "fire 4")
	other := exec.Command(stapsdt(t), "inpod", "resume")
	resume(t, other)
	require.Error(t, other.Wait())
	require.Regexp(t, `^stapsdt: the request has ended: its socket belongs to user \d+\n$`, other.Stderr.(*bytes.Buffer).String())
	require.Empty(t, other.Stdout.(*bytes.Buffer).Bytes())
	again := unprivileged(t, stapsdt(t), "inpod", "resume")
	input := resume(t, again)
	tell(p, "fire 5")
	_, err := input.Write([]byte("\n"))
	require.NoError(t, err)
	require.NoError(t, again.Wait(), again.Stderr.(*bytes.Buffer).String())
	require.NoError(t, q.Wait(testenv.Patience), "%s", q.Dump())
	tell(p, "idle")
	recording, isWhole := unframe(t, again.Stdout.(*bytes.Buffer).Bytes())
	require.True(t, isWhole)
	file := filepath.Join(t.TempDir(), "sent.rec")
	require.NoError(t, os.WriteFile(file, recording, 0o600))
	require.Contains(t, runCommand(t, "count", "--from", file, "subject:*", "-o", "json").stdout, `"count":12`)

	q = startSending(t, p, id, "1s")
	q.Hangup()
	require.Error(t, q.Wait(testenv.Patience))
	tell(p, "idle")
	late := unprivileged(t, stapsdt(t), "inpod", "resume")
	resume(t, late)
	require.Error(t, late.Wait())
	require.Equal(t, "stapsdt: the request has ended\n", late.Stderr.(*bytes.Buffer).String())

	q = startSending(t, p, id, "1h")
	q.Say("")
	q.Hangup()
	_ = q.Wait(testenv.Patience)
	require.True(t, q.Ended())
	tell(p, "idle")
}
