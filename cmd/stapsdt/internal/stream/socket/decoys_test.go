//go:build linux

package socket

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/require"
)

// givenUp counts the connections to silent sockets that their other side has closed.
var givenUp atomic.Int64

// listenAt opens a socket with the name of this process's in a new directory, and answers there, or is silent.
func listenAt(t *testing.T, answers bool) (at string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "decoy") // with a short path
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	at = filepath.Join(dir, fmt.Sprintf("%d-%d.sock", os.Getpid(), Started(os.Getpid())))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				for {
					kind, _, err := wire.Read(c)
					switch {
					case err == nil && !answers:
					case err == nil && kind == wire.KindHello:
						_, _ = c.Write(wire.Append(nil, kind, (&wire.Hello{Major: wire.Major}).Append(nil)))
					case err == nil:
						_, _ = c.Write(wire.Append(nil, wire.KindDone, nil))
					default:
						if err == io.EOF && !answers {
							givenUp.Add(1)
						}
						return
					}
				}
			}()
		}
	}()
	return at
}

// own returns this process as it was found among all.
func own(t *testing.T) *Process {
	t.Helper()
	var found []*Process
	for _, p := range Processes() {
		if p.PID == os.Getpid() && !p.Elsewhere {
			found = append(found, p)
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

// TestDecoys: sockets that have the name of a process's own make no further process, and do not delay it.
func TestDecoys(t *testing.T) {
	for range maxPlaces - 1 {
		listenAt(t, false)
	}
	at := listenAt(t, true)
	p, before := own(t), givenUp.Load()
	c, err := p.Dial()
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, at, c.Path())
	require.Equal(t, before, givenUp.Load(), "it has waited for a socket that is silent")
}

// TestDecoysOfOthers: those of other users do not displace it either, however many there are.
func TestDecoysOfOthers(t *testing.T) {
	testenv.NeedsRoot(t)
	at := listenAt(t, true)
	for range 2 * maxPlaces {
		require.NoError(t, os.Chown(listenAt(t, false), 4242, 4242))
	}
	t.Setenv("STAPSDT_DIR", filepath.Dir(at))
	p, err := Find(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, place{fmt.Sprintf("/proc/%d/root", os.Getpid()), at}, p.likely()[0])
	require.Len(t, p.likely(), maxPlaces)
	c, err := p.Dial()
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, at, c.Path())
	for range maxPaths {
		require.NoError(t, os.Chown(listenAt(t, false), 4242, 4242))
	}
	c, err = own(t).Dial()
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, at, c.Path())
}
