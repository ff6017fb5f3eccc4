//go:build linux

package inpod

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// maxGuests is the number of connections that may be about to hand over their files at a time.
	maxGuests = 16
	// acceptPause is the pause after an error of accept, such as a lack of descriptors.
	acceptPause = 50 * time.Millisecond
)

// guests are connections that have not handed over their files yet, the oldest one first. Another
// container of the pod can have the same user, and open any number of them.
type guests struct {
	mu  sync.Mutex
	all []*net.UnixConn
}

// add adds a connection. It closes the oldest one if there are too many: the command resume hands
// over its files at once.
func (g *guests) add(c *net.UnixConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) == maxGuests {
		_ = g.all[0].Close()
		g.all = slices.Delete(g.all, 0, 1)
	}
	g.all = append(g.all, c)
}

// remove removes a connection. isOpen means that add has not closed it.
func (g *guests) remove(c *net.UnixConn) (isOpen bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.all, c)
	if i >= 0 {
		g.all = slices.Delete(g.all, i, i+1)
	}
	return i >= 0
}

// acceptor is a *net.UnixListener.
type acceptor interface {
	AcceptUnix() (*net.UnixConn, error)
}

// accept takes connections of this user until the listener is closed. The latest one replaces the
// others, because only the user of the request has the token, and may notice the loss of a
// connection earlier than this process.
func (s *Stream) accept(from acceptor) {
	for {
		peer, err := from.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptPause)
		case checkPeer(peer) != nil:
			_ = peer.Close()
		default:
			s.guests.add(peer)
			go s.receive(peer)
		}
	}
}

// receive lets a connection replace the others if it hands over its files.
func (s *Stream) receive(peer *net.UnixConn) {
	c, err := s.greet(peer)
	switch isOpen := s.guests.remove(peer); {
	case err != nil:
		_ = peer.Close()
	case !isOpen:
		_ = c.problems.Close()
		c.lose()
	default:
		go s.listen(c)
		s.replace(c)
	}
}
