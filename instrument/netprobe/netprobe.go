// Package netprobe reports connections and TLS handshakes to tracers.
//
//	app := stapsdt.NewProvider("shop")
//	probes := netprobe.New(app)
//	err := app.Load()
//	...
//	transport.DialContext = probes.DialContext((&net.Dialer{}).DialContext)
//	server.Serve(probes.Listener(listener))
//	err = probes.Handshake(ctx, conn)
//
// It defines these probes. Dials and handshakes are spans: see package span for their IDs,
// parents, durations and errors, and for their cost while nothing traces them.
//
//	dial__start(id, parent, network, address)
//	dial__end(id, parent, nanoseconds, error, address, remote, network)
//	handshake__start(id, parent, remote)
//	handshake__end(id, parent, nanoseconds, error, server_name, version,
//		cipher_suite, protocol, resumed)
//	accept(network, local, remote, error)
//
// The connections themselves are the program's own and are never wrapped, so that the
// optimizations of packages net and net/http for *net.TCPConn, such as sendfile, still apply.
//
// # Addresses
//
// local and remote, and the network of accept, come from the connections and listeners of
// package net, and from a *tls.Conn over such a connection. They are empty for other types:
// the program's own RemoteAddr may wait for the peer (if it expects a PROXY header, for
// example), take a lock, or panic, and could thus stop the loop that accepts connections. The
// listener's address is reported only with an error.
package netprobe

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/operation"
	"github.com/go-stapsdt/stapsdt/span"
)

// Probes holds the probes. [New] makes it: the zero Probes must not be used. Its methods, and what
// they return, are safe for concurrent use.
type Probes struct {
	dials      *span.Operation[dialStart, dialEnd]
	handshakes *span.Operation[handshakeStart, handshakeEnd]
	accept     *stapsdt.Probe4[string, string, string, string]
}

type (
	dialStart      struct{ Network, Address string }
	dialEnd        struct{ Address, Remote, Network string }
	handshakeStart struct{ Remote string }
	handshakeEnd   struct {
		ServerName           string
		Version, CipherSuite uint16
		Protocol             string
		Resumed              bool
	}
)

// New defines the probes. If the provider has probes of these names with other arguments, its Load
// reports it. With a nil provider nothing is reported.
func New(p *stapsdt.Provider, opts ...span.Option) *Probes {
	return &Probes{
		dials:      span.NewOperation[dialStart, dialEnd](p, "dial", opts...),
		handshakes: span.NewOperation[handshakeStart, handshakeEnd](p, "handshake", opts...),
		accept:     stapsdt.NewProbe4[string, string, string, string](p, "accept", "network", "local", "remote", "error"),
	}
}

// DialFunc dials a connection, as the DialContext of a net.Dialer does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext returns a function that dials with next, or with a net.Dialer if it is nil, and
// reports each dial. remote is the address that was reached, or empty if none was. While the dial
// is traced, the context of next is derived from that of the caller.
func (p *Probes) DialContext(next DialFunc) DialFunc {
	if next == nil {
		next = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !p.dials.Enabled() {
			return next(ctx, network, address)
		}
		inside, s := p.dials.Start(ctx, dialStart{network, address})
		conn, err := next(derived(ctx, inside), network, address)
		s.EndFunc(func() dialEnd {
			var remote net.Addr
			if err == nil {
				_, remote = addresses(conn)
			}
			return dialEnd{address, text(remote), network}
		}, err)
		return conn, err
	}
}

// derived returns the context of a span that has started in ctx. A nil context stays nil, so
// that the program notices the same error as without tracing.
func derived(ctx, inside context.Context) context.Context {
	if ctx == nil {
		return nil
	}
	return inside
}

// Handshake runs the handshake of a TLS connection, of a client or a server, as
// [tls.Conn.HandshakeContext] does, and reports it.
// version and cipher_suite are the numbers of package crypto/tls, protocol is the protocol
// that ALPN has negotiated, and resumed reports whether the session was resumed. After a
// failed handshake, they have the values negotiated by then. If the handshake has been done
// already, Handshake returns at once, and reports that. Like every call of ConnectionState,
// the report waits for a handshake of the same connection that another goroutine has begun
// since, such as a renegotiation. While the handshake is traced, its context is derived from
// ctx.
func (p *Probes) Handshake(ctx context.Context, conn *tls.Conn) error {
	if !p.handshakes.Enabled() {
		return conn.HandshakeContext(ctx)
	}
	_, remote := addresses(conn)
	inside, s := p.handshakes.Start(ctx, handshakeStart{text(remote)})
	err := conn.HandshakeContext(derived(ctx, inside))
	s.EndFunc(func() handshakeEnd {
		state := conn.ConnectionState()
		return handshakeEnd{
			state.ServerName,
			state.Version,
			state.CipherSuite,
			state.NegotiatedProtocol,
			state.DidResume,
		}
	}, err)
	return err
}

// Listener returns a listener that accepts connections with l, and reports them and the
// errors. It has all methods of l if l is a *net.TCPListener or a *net.UnixListener, and
// otherwise the methods of net.Listener.
func (p *Probes) Listener(l net.Listener) net.Listener {
	switch l := l.(type) {
	case *net.TCPListener:
		return &tcpListener{l, p}
	case *net.UnixListener:
		return &unixListener{l, p}
	}
	return &listener{l, p}
}

type listener struct {
	net.Listener
	probes *Probes
}

func (l *listener) Accept() (net.Conn, error) { return l.probes.acceptFrom(l.Listener, false) }

type tcpListener struct {
	*net.TCPListener
	probes *Probes
}

func (l *tcpListener) Accept() (net.Conn, error) { return l.probes.acceptFrom(l.TCPListener, true) }

type unixListener struct {
	*net.UnixListener
	probes *Probes
}

func (l *unixListener) Accept() (net.Conn, error) {
	return l.probes.acceptFrom(l.UnixListener, true)
}

// acceptFrom accepts a connection of a listener, and reports it. ofNet reports whether package net
// has the listener's type.
func (p *Probes) acceptFrom(l net.Listener, ofNet bool) (net.Conn, error) {
	conn, err := l.Accept()
	if p.accept.Enabled() {
		p.accepted(l, ofNet, conn, err)
	}
	return conn, err
}

// accepted reports a connection, or the error if there is none.
//
//go:noinline
func (p *Probes) accepted(l net.Listener, ofNet bool, conn net.Conn, err error) {
	if err != nil {
		var local net.Addr
		if ofNet {
			local = listening(l)
		}
		p.accept.Fire(network(local), text(local), "", operation.ErrorText(err))
		return
	}
	local, remote := addresses(conn)
	p.accept.Fire(network(local), text(local), text(remote), "")
}
