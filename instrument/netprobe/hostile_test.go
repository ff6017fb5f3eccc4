package netprobe

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// lazy is a connection that is made when it is first used, and nil until then.
type lazy struct{ net.Conn }

// spy is a connection, a listener and an address of the program's. It notes the calls of its
// methods, and those that ask for addresses do something else instead.
type spy struct {
	net.Conn
	mu    *sync.Mutex
	calls *[]string
	do    func()
}

func newSpy(conn net.Conn, do func()) spy { return spy{conn, new(sync.Mutex), new([]string), do} }

func (s spy) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.calls = append(*s.calls, call)
}

func (s spy) hostile(call string) net.Addr  { s.note(call); s.do(); return s }
func (s spy) LocalAddr() net.Addr           { return s.hostile("LocalAddr") }
func (s spy) RemoteAddr() net.Addr          { return s.hostile("RemoteAddr") }
func (s spy) Addr() net.Addr                { return s.hostile("Addr") }
func (s spy) Network() string               { s.hostile("Network"); return "" }
func (s spy) String() string                { s.hostile("String"); return "" }
func (s spy) Accept() (net.Conn, error)     { s.note("Accept"); return s, nil }
func (s spy) Read(b []byte) (int, error)    { s.note("Read"); return s.Conn.Read(b) }
func (s spy) Write(b []byte) (int, error)   { s.note("Write"); return s.Conn.Write(b) }
func (s spy) Close() error                  { s.note("Close"); return s.Conn.Close() }
func (s spy) SetDeadline(t time.Time) error { s.note("SetDeadline"); return s.Conn.SetDeadline(t) }
func (s spy) SetReadDeadline(t time.Time) error {
	s.note("SetReadDeadline")
	return s.Conn.SetReadDeadline(t)
}
func (s spy) SetWriteDeadline(t time.Time) error {
	s.note("SetWriteDeadline")
	return s.Conn.SetWriteDeadline(t)
}
func (s spy) NetConn() net.Conn { s.hostile("NetConn"); return nil }

// hostilities are what a method may do that the program does not call.
func hostilities() map[string]func() {
	var held sync.Mutex
	held.Lock()
	return map[string]func(){
		"count": func() {}, "block": func() { select {} }, "lock": held.Lock, "exit": runtime.Goexit,
		"panic": func() { panic("hostile") },
	}
}

// TestForeignTypes: no method of a connection or a listener of the program's is called that
// the program does not call.
func TestForeignTypes(t *testing.T) {
	for name, do := range hostilities() {
		p := eventtest.Provider(t, "netprobe")
		probes := New(p)
		s := newSpy(nil, do)
		dial := probes.DialContext(func(context.Context, string, string) (net.Conn, error) { return s, nil })
		l := probes.Listener(s)
		use := func() {
			conn, err := dial(t.Context(), "tcp", "x")
			require.NoError(t, err)
			require.Equal(t, s.calls, conn.(spy).calls)
			conn, err = l.Accept()
			require.NoError(t, err)
			require.Equal(t, s.calls, conn.(spy).calls)
		}
		use()
		rec := probetest.Record(t, p)
		use()
		require.Equal(t, []string{"Accept", "Accept"}, *s.calls, name)
		require.Empty(t, eventtest.Args(rec.Events(probetest.OnlyNamed("dial__end"))[0])["remote"])
		require.Equal(t, map[string]any{"network": "", "local": "", "remote": "", "error": ""}, eventtest.Args(rec.Events(probetest.OnlyNamed("accept"))[0]))
	}
}

// TestEmptyConnections: connections and listeners that are lazy, nil, or a zero value do not
// panic for a tracer, neither do errors, and a nil context stays nil.
func TestEmptyConnections(t *testing.T) {
	p, rec := eventtest.Recorded(t, "netprobe")
	probes := New(p)
	for _, conn := range []net.Conn{
		nil, &lazy{}, lazy{}, (*lazy)(nil), (*net.TCPConn)(nil), (*net.UnixConn)(nil), (*net.UDPConn)(nil), (*net.IPConn)(nil),
		&net.TCPConn{}, &net.UnixConn{}, &net.UDPConn{}, &net.IPConn{}, (*tls.Conn)(nil), &tls.Conn{},
		tls.Client((*tls.Conn)(nil), nil), tls.Client(&lazy{}, nil), tls.Client(tls.Client(nil, nil), nil),
	} {
		got, err := probes.DialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
			if ctx != nil {
				t.Error("the context is not nil")
			}
			return conn, nil
		})(nil, "tcp", "x")
		require.NoError(t, err)
		require.True(t, got == conn)
		got, err = probes.Listener(accepting{conn}).Accept()
		require.NoError(t, err)
		require.True(t, got == conn)
	}
	for _, e := range rec.Events(probetest.OnlyNamed("dial__end")) {
		require.Empty(t, eventtest.Args(e)["remote"])
	}
	for _, l := range []net.Listener{(*net.TCPListener)(nil), &net.TCPListener{}, (*net.UnixListener)(nil), &net.UnixListener{}} {
		_, err := probes.Listener(l).Accept()
		require.Error(t, err)
	}
	rec.Reset()
	_, err := probes.Listener(refusing{(*refusal)(nil)}).Accept()
	require.Error(t, err)
	require.Equal(t, "*netprobe.refusal", eventtest.Args(rec.Events()[0])["error"])
	rec.Reset()
	require.Panics(t, func() { _ = probes.Handshake(nil, tls.Client(&lazy{}, &tls.Config{})) }, "as untraced") //lint:ignore SA1012 a program may do so
}

type accepting struct{ conn net.Conn }

func (a accepting) Accept() (net.Conn, error) { return a.conn, nil }
func (accepting) Close() error                { return nil }
func (accepting) Addr() net.Addr              { panic("hostile") }

type refusing struct{ err error }

func (r refusing) Accept() (net.Conn, error) { return nil, r.err }
func (refusing) Close() error                { return nil }
func (refusing) Addr() net.Addr              { panic("hostile") }

// refusal is an error whose method panics for nil.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// TestForeignHandshake: the handshake over a connection of the program's makes the calls that
// it makes untraced.
func TestForeignHandshake(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	calls := func(do func(), handshake func(context.Context, *tls.Conn) error) []string {
		raw, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer raw.Close()
		s := newSpy(raw, do)
		conn := tls.Client(s, config)
		require.NoError(t, handshake(t.Context(), conn))
		require.NoError(t, handshake(t.Context(), tls.Client(conn, config).NetConn().(*tls.Conn)))
		return *s.calls
	}
	for name, do := range hostilities() {
		want := calls(do, func(ctx context.Context, c *tls.Conn) error { return c.HandshakeContext(ctx) })
		p, rec := eventtest.Recorded(t, "netprobe")
		probes := New(p)
		require.Equal(t, want, calls(do, probes.Handshake), name)
		require.Empty(t, eventtest.Args(rec.Events()[0])["remote"])
	}
}

// TestTLSAddresses: the addresses of TLS over a connection of package net are found.
func TestTLSAddresses(t *testing.T) {
	p, rec := eventtest.Recorded(t, "netprobe")
	probes := New(p)
	server := httptest.NewUnstartedServer(nil)
	server.Listener = probes.Listener(server.Listener)
	server.StartTLS()
	defer server.Close()
	address := server.Listener.Addr().String()
	dial := probes.DialContext((&tls.Dialer{Config: server.Client().Transport.(*http.Transport).TLSClientConfig}).DialContext)
	conn, err := dial(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	require.Equal(t, address, eventtest.Args(rec.Events(probetest.OnlyNamed("dial__end"))[0])["remote"])
	l := probes.Listener(accepting{tls.Client(tls.Client(conn, nil), nil)})
	rec.Reset()
	_, err = l.Accept()
	require.NoError(t, err)
	require.Equal(t, map[string]any{"network": "tcp", "local": conn.LocalAddr().String(), "remote": address, "error": ""},
		eventtest.Args(rec.Events(probetest.OnlyNamed("accept"))[0]))
}

// waiting is a connection on which nothing arrives.
type waiting struct {
	net.Conn
	wait func()
}

func (w waiting) Write(b []byte) (int, error)    { return len(b), nil }
func (w waiting) Read([]byte) (int, error)       { w.wait(); return 0, io.EOF }
func (waiting) Close() error                     { return nil }
func (waiting) SetWriteDeadline(time.Time) error { return nil }

// TestInFlight: operations in flight have no goroutine of ours. In the long run they keep no thread, at most the
// stated memory, and none when they have ended.
func TestInFlight(t *testing.T) {
	p := eventtest.Provider(t, "netprobe")
	probes := New(p)
	config := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
	for _, c := range []struct {
		name  string
		limit int // in bytes of heap per operation
		run   func(wait func())
	}{
		{"dial", 128, func(wait func()) {
			dial := probes.DialContext(func(context.Context, string, string) (net.Conn, error) { wait(); return nil, io.EOF })
			_, _ = dial(context.Background(), "tcp", "x")
		}},
		{"handshake", 128, func(wait func()) {
			_ = probes.Handshake(context.Background(), tls.Client(waiting{wait: wait}, config))
		}},
		{"accept", 16, func(wait func()) {
			conn, _ := probes.Listener(accepting{waiting{}}).Accept()
			wait()
			runtime.KeepAlive(conn)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eventtest.InFlight(t, p, c.limit, func() func() { return eventtest.Held(c.run) })
		})
	}
}
