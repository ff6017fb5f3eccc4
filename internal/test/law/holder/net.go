//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/netprobe"
)

// connections has the probes of netprobe, which dials, accepts and handshakes of a provider
// share.
var connections = map[*stapsdt.Provider]*netprobe.Probes{}

func netProbes(p *stapsdt.Provider) *netprobe.Probes {
	if connections[p] == nil {
		connections[p] = netprobe.New(p)
	}
	return connections[p]
}

// socket is a connection that gets no data until its call ends.
type socket struct {
	net.Conn
	call *call
}

var address = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}

func (s *socket) LocalAddr() net.Addr            { return address }
func (s *socket) RemoteAddr() net.Addr           { return address }
func (s *socket) Close() error                   { return nil }
func (s *socket) Write(data []byte) (int, error) { return len(data), nil }

func (s *socket) Read([]byte) (int, error) {
	s.call.stay()
	return 0, io.EOF
}

// dials are in flight until the dialer returns.
type dials struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func newDials(p *stapsdt.Provider) operations {
	return dials{netProbes(p).DialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
		c := callIn(ctx)
		c.stay()
		return &socket{call: c}, nil
	})}
}

func (d dials) begin(int) (operation, error) {
	return callOf(func(ctx context.Context) error {
		conn, err := d.dial(ctx, "tcp", "service.example:443")
		if err != nil {
			return err
		}
		return differs(callIn(ctx), conn.(*socket).call)
	})
}

// accepts are connections that were accepted and are not closed.
type accepts struct {
	listener net.Listener
	incoming backlog
}

func newAccepts(p *stapsdt.Provider) operations {
	b := make(backlog, crewSize)
	return accepts{netProbes(p).Listener(b), b}
}

func (a accepts) begin(int) (operation, error) {
	a.incoming <- &socket{}
	conn, err := a.listener.Accept()
	if err != nil {
		return nil, err
	}
	return accepted{conn}, nil
}

type accepted struct{ conn net.Conn }

func (a accepted) end() error {
	if _, mine := a.conn.(*socket); !mine {
		return errors.New("another connection was accepted")
	}
	return a.conn.Close()
}

// backlog is a listener.
type backlog chan net.Conn

func (b backlog) Accept() (net.Conn, error) { return <-b, nil }
func (b backlog) Close() error              { return nil }
func (b backlog) Addr() net.Addr            { return address }

// handshakes are those of a server whose clients say nothing.
type handshakes struct{ probes *netprobe.Probes }

func newHandshakes(p *stapsdt.Provider) operations { return handshakes{netProbes(p)} }

var tlsConfig = &tls.Config{Certificates: []tls.Certificate{{}}}

func (h handshakes) begin(int) (operation, error) {
	return callOf(func(ctx context.Context) error {
		conn := tls.Server(&socket{call: callIn(ctx)}, tlsConfig)
		return differs(io.EOF, h.probes.Handshake(ctx, conn))
	})
}
