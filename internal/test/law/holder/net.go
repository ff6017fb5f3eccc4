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

var netProbes = once(netprobe.New)

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

// newDials returns dials, which are in flight until the dialer returns.
func newDials(p *stapsdt.Provider) begin {
	dial := netProbes(p).DialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
		c := callIn(ctx)
		c.stay()
		return &socket{call: c}, nil
	})
	return func(int) (end, error) {
		return callOf(func(ctx context.Context) error {
			conn, err := dial(ctx, "tcp", "service.example:443")
			if err != nil {
				return err
			}
			return differs(callIn(ctx), conn.(*socket).call)
		})
	}
}

// newAccepts returns connections that were accepted and are not closed.
func newAccepts(p *stapsdt.Provider) begin {
	incoming := make(backlog, crewSize)
	listener := netProbes(p).Listener(incoming)
	return func(int) (end, error) {
		incoming <- &socket{}
		conn, err := listener.Accept()
		if err != nil {
			return nil, err
		}
		return func() error {
			if _, mine := conn.(*socket); !mine {
				return errors.New("another connection was accepted")
			}
			return conn.Close()
		}, nil
	}
}

// backlog is a listener.
type backlog chan net.Conn

func (b backlog) Accept() (net.Conn, error) { return <-b, nil }
func (b backlog) Close() error              { return nil }
func (b backlog) Addr() net.Addr            { return address }

var tlsConfig = &tls.Config{Certificates: []tls.Certificate{{}}}

// newHandshakes returns handshakes of a server whose clients say nothing.
func newHandshakes(p *stapsdt.Provider) begin {
	probes := netProbes(p)
	return func(int) (end, error) {
		return callOf(func(ctx context.Context) error {
			return differs(io.EOF, probes.Handshake(ctx, tls.Server(&socket{call: callIn(ctx)}, tlsConfig)))
		})
	}
}
