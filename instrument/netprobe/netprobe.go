// Package netprobe reports connections and TLS handshakes to tracers.
//
//	app := stapsdt.NewProvider("shop")
//	probes := netprobe.New(app)
//	err := app.Load()
//	...
//	transport.DialContext = probes.Dial((&net.Dialer{}).DialContext)
//	server.Serve(probes.Listener(listener))
//	err = probes.Handshake(ctx, conn)
//
// It defines these probes. Dials and handshakes are spans: see package span for their ids,
// parents, durations and errors, and for what they cost while nothing traces.
//
//	dial__start(id, parent, network, address)
//	dial__end(id, parent, nanoseconds, error, address, remote, network)
//	handshake__start(id, parent, remote)
//	handshake__end(id, parent, nanoseconds, error, server_name, version, cipher_suite, protocol, resumed)
//	accept(network, local, remote, error)
//
// The connections themselves are the program's own and are never wrapped, so that the
// optimizations of packages net and net/http for *net.TCPConn, such as sendfile, still apply.
package netprobe

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/span"
)

// Probes holds the probes.
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

// New defines the probes. If the provider already has others of these names, its Load
// reports it. With a nil provider nothing is reported.
func New(p *stapsdt.Provider, opts ...span.Option) *Probes {
	return &Probes{
		dials:      span.New[dialStart, dialEnd](p, "dial", opts...),
		handshakes: span.New[handshakeStart, handshakeEnd](p, "handshake", opts...),
		accept:     stapsdt.NewProbe4[string, string, string, string](p, "accept", "network", "local", "remote", "error"),
	}
}

// Dial returns a function that dials with next, such as the DialContext of a net.Dialer, and
// reports it. remote is the address that was reached, or empty if none was.
func (p *Probes) Dial(next func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, s := p.dials.Start(ctx, dialStart{network, address})
		conn, err := next(ctx, network, address)
		if s != nil {
			remote := ""
			if err == nil && conn != nil {
				remote = text(conn.RemoteAddr())
			}
			s.End(dialEnd{address, remote, network}, err)
		}
		return conn, err
	}
}

// text returns an address as text. Some connections have none.
func text(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// Handshake runs the handshake of a TLS connection, of a client or a server, and reports it.
// version and cipher_suite are the numbers that package crypto/tls has, protocol is the one
// that ALPN has negotiated, and resumed says whether the session was resumed. After a failed
// handshake they are what had been negotiated by then. If the handshake has been done already,
// Handshake returns at once, and reports that.
func (p *Probes) Handshake(ctx context.Context, conn *tls.Conn) error {
	if !p.handshakes.Enabled() {
		return conn.HandshakeContext(ctx)
	}
	ctx, s := p.handshakes.Start(ctx, handshakeStart{text(conn.RemoteAddr())})
	err := conn.HandshakeContext(ctx)
	s.EndFunc(func() handshakeEnd {
		state := conn.ConnectionState()
		return handshakeEnd{state.ServerName, state.Version, state.CipherSuite, state.NegotiatedProtocol, state.DidResume}
	}, err)
	return err
}

// Listener returns a listener that accepts connections with l, and reports them and the
// errors. It has all methods that l has if that is a *net.TCPListener or a *net.UnixListener,
// and otherwise those of net.Listener.
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

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return l.probes.accepted(l.Addr(), conn, err)
}

type tcpListener struct {
	*net.TCPListener
	probes *Probes
}

func (l *tcpListener) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	return l.probes.accepted(l.Addr(), conn, err)
}

type unixListener struct {
	*net.UnixListener
	probes *Probes
}

func (l *unixListener) Accept() (net.Conn, error) {
	conn, err := l.UnixListener.Accept()
	return l.probes.accepted(l.Addr(), conn, err)
}

// accepted reports a connection, or why there is none.
func (p *Probes) accepted(local net.Addr, conn net.Conn, err error) (net.Conn, error) {
	if p.accept.Enabled() && local != nil {
		remote, failure := "", ""
		if err != nil {
			failure = err.Error()
		} else if conn != nil {
			local, remote = conn.LocalAddr(), text(conn.RemoteAddr())
		}
		if local != nil {
			p.accept.Fire(local.Network(), local.String(), remote, failure)
		}
	}
	return conn, err
}
