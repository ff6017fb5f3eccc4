//go:build linux

package inpod

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

// The command resume hands its standard files over to the request, by a socket in the abstract
// namespace. Its name is a hash of the token. Other containers of the pod see the name, and could
// take it once the request has ended, so each side checks the user of the other. They may have the
// same user, so each side also has to know the token: the request proves that first, because the
// command would give its token away.

const (
	// tokenBytes is the size of a token, as rand.Text returns it.
	tokenBytes = 26
	// challengeBytes is the size of the challenge that the request signs with the token.
	challengeBytes = 16
	// greetPatience is the time that a command may take to hand over its files, and a request to
	// prove that it has the token.
	greetPatience = 5 * time.Second
	// standardFiles is the number of files that it hands over.
	standardFiles = 3
	// whole is the byte that a request sends to the command after it has sent its recording.
	whole = 1
)

var (
	// ErrNoRequest means that the request of a token has ended.
	ErrNoRequest = errors.New("the request has ended")
	// ErrCut means that a request has ended without sending its whole recording, or that another
	// connection has replaced this one.
	ErrCut = errors.New("the stream has ended early")
)

// address returns the address of the request of a token.
func address(token string) *net.UnixAddr {
	name := sha256.Sum256([]byte(token))
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@stapsdt-%x", name[:16])}
}

// readToken reads the line with a token, and nothing after it.
func readToken(from io.Reader) (string, error) {
	line := make([]byte, tokenBytes+1)
	if _, err := io.ReadFull(from, line); err != nil {
		return "", fmt.Errorf("read the token of the request: %w", err)
	}
	if line[tokenBytes] != '\n' {
		return "", errors.New("read the token of the request: the line is too long")
	}
	return string(line[:tokenBytes]), nil
}

// checkPeer returns an error if another user is at the other end of a connection.
func checkPeer(c *net.UnixConn) error {
	peer, err := wire.Peer(c)
	switch {
	case err != nil:
		return err
	case int(peer.Uid) != os.Geteuid():
		return fmt.Errorf("%w: its socket belongs to user %d", ErrNoRequest, peer.Uid)
	}
	return nil
}

// ResumeStream reads a token and the position of the receiver, and hands the standard files over to
// the request of the token. It returns when the request has ended, or has another connection.
func ResumeStream(input, output, problems *os.File) error {
	token, err := readToken(input)
	if err != nil {
		return err
	}
	var at bytes.Buffer
	if _, err := mirror.Read(io.TeeReader(input, &at)); err != nil {
		return fmt.Errorf("read the position in the stream: %w", err)
	}
	c, err := net.DialUnix("unix", nil, address(token))
	if err != nil {
		return ErrNoRequest
	}
	defer c.Close()
	if err := checkPeer(c); err != nil {
		return err
	}
	if err := challenge(c, token); err != nil {
		return err
	}
	files := unix.UnixRights(int(input.Fd()), int(output.Fd()), int(problems.Fd()))
	if _, _, err := c.WriteMsgUnix([]byte(token), files, nil); err != nil {
		return err
	}
	if _, err := c.Write(at.Bytes()); err != nil {
		return err
	}
	end, err := io.ReadAll(io.LimitReader(c, 1))
	if err != nil || len(end) == 0 {
		return ErrCut
	}
	return nil
}

// challenge returns an error if the other end of a connection does not have the token.
func challenge(c *net.UnixConn, token string) error {
	sent, got := make([]byte, challengeBytes), make([]byte, sha256.Size)
	_, _ = rand.Read(sent) // never fails
	_ = c.SetDeadline(time.Now().Add(greetPatience))
	_, err := c.Write(sent)
	if err == nil {
		_, err = io.ReadFull(c, got)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: no answer from its socket: %w", ErrNoRequest, err)
	case !hmac.Equal(got, sign(token, sent)):
		return fmt.Errorf("%w: its socket belongs to another process", ErrNoRequest)
	}
	return c.SetDeadline(time.Time{})
}

// answer answers the challenge of a command.
func (s *Stream) answer(peer *net.UnixConn) error {
	got := make([]byte, challengeBytes)
	if _, err := io.ReadFull(peer, got); err != nil {
		return err
	}
	_, err := peer.Write(sign(s.token, got))
	return err
}

// sign returns a signature of a challenge, which only a process with the token can make.
func sign(token string, challenge []byte) []byte {
	h := hmac.New(sha256.New, []byte(token))
	_, _ = h.Write(challenge)
	return h.Sum(nil)
}

// greet receives the files of a connection and the position of its receiver.
func (s *Stream) greet(peer *net.UnixConn) (*connection, error) {
	_ = peer.SetDeadline(time.Now().Add(greetPatience))
	if err := s.answer(peer); err != nil {
		return nil, err
	}
	token, files, err := receive(peer)
	if err == nil && subtle.ConstantTimeCompare(token, []byte(s.token)) == 0 {
		err = errors.New("the token is wrong")
	}
	var at *mirror.Frame
	if err == nil {
		at, err = mirror.Read(peer)
	}
	if err != nil || len(files) != standardFiles {
		for _, fd := range files {
			_ = unix.Close(fd)
		}
		return nil, errors.Join(err, ErrNoRequest)
	}
	_ = peer.SetDeadline(time.Time{})
	return &connection{
		input: pollable(files[0]), output: pollable(files[1]),
		problems: os.NewFile(uintptr(files[2]), "/dev/stderr"), peer: peer, at: at,
	}, nil
}

// receive receives a token with open files.
func receive(peer *net.UnixConn) (token []byte, files []int, err error) {
	token = make([]byte, tokenBytes)
	control := make([]byte, unix.CmsgSpace(4*standardFiles))
	n, size, _, _, err := peer.ReadMsgUnix(token, control)
	if err != nil {
		return nil, nil, err
	}
	return token[:n], wire.Descriptors(control[:size]), nil
}
