package netprobe

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

func TestDialAndAccept(t *testing.T) {
	p := eventtest.Provider(t, "netprobe")
	probes := New(p)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := probes.Listener(inner)
	require.NoError(t, l.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Now().Add(testenv.Patience)))
	address := l.Addr().String()
	dial := probes.DialContext((&net.Dialer{}).DialContext)
	rec := probetest.Record(t, p)

	out, err := dial(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer out.Close()
	require.IsType(t, &net.TCPConn{}, out)
	in, err := l.Accept()
	require.NoError(t, err)
	defer in.Close()
	require.IsType(t, &net.TCPConn{}, in)
	require.NoError(t, l.Close())
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	closed := err.Error()
	_, err = dial(t.Context(), "tcp", address)
	require.Error(t, err)
	id := func(i int) uint64 { return rec.Events(probetest.OnlyNamed("dial__start"))[i].Arg(0).Uint64() }
	rec.Want(func() {
		probes.dialStart(p).Fire(id(0), 0, "tcp", address)
		probes.accept.Fire("tcp", address, out.LocalAddr().String(), "")
		probes.accept.Fire("tcp", address, "", closed)
		probes.dialStart(p).Fire(id(1), 0, "tcp", address)
	}, probetest.Where(func(e *stapsdt.Event) bool { return e.Probe().Name() != "dial__end" }))
	ends := rec.Events(probetest.OnlyNamed("dial__end"))
	require.Len(t, ends, 2)
	require.Equal(t, []any{"", address, address, "tcp"}, []any{eventtest.Args(ends[0])["error"], eventtest.Args(ends[0])["address"], eventtest.Args(ends[0])["remote"], eventtest.Args(ends[0])["network"]})
	require.Equal(t, []any{err.Error(), address, "", "tcp"}, []any{eventtest.Args(ends[1])["error"], eventtest.Args(ends[1])["address"], eventtest.Args(ends[1])["remote"], eventtest.Args(ends[1])["network"]})
}

// dialStart returns another probe of the same name, with which a test says what it wants.
func (*Probes) dialStart(p *stapsdt.Provider) *stapsdt.Probe4[uint64, uint64, string, string] {
	return stapsdt.NewProbe4[uint64, uint64, string, string](p, "dial__start", "id", "parent", "network", "address")
}

func TestListeners(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sockets with names differ")
	}
	p, rec := eventtest.Recorded(t, "netprobe")
	probes := New(p)
	path := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", path)
	require.NoError(t, err)
	l := probes.Listener(unix)
	l.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(true)
	out, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer out.Close()
	in, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.NoError(t, l.Close())
	require.Equal(t, path, eventtest.Args(rec.Events(probetest.OnlyNamed("accept"))[0])["local"])

	rec.Reset()
	other := probes.Listener(nowhere{})
	_, err = other.Accept()
	require.ErrorIs(t, err, errNowhere)
	rec.Want(func() { probes.accept.Fire("", "", "", errNowhere.Error()) })
}

var errNowhere = errors.New("nowhere")

type nowhere struct{}

func (nowhere) Accept() (net.Conn, error) { return nil, errNowhere }
func (nowhere) Close() error              { return nil }
func (nowhere) Addr() net.Addr            { return nil }

func TestHandshake(t *testing.T) {
	p := eventtest.Provider(t, "netprobe")
	probes := New(p)
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	config := server.Client().Transport.(*http.Transport).TLSClientConfig
	handshake := func(name string) error {
		c := config.Clone()
		c.ServerName = name
		raw, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer raw.Close()
		return probes.Handshake(t.Context(), tls.Client(raw, c))
	}
	require.NoError(t, handshake("example.com"))
	rec := probetest.Record(t, p)
	require.NoError(t, handshake("example.com"))
	err := handshake("other.test")
	require.Error(t, err)
	starts, ends := rec.Events(probetest.OnlyNamed("handshake__start")), rec.Events(probetest.OnlyNamed("handshake__end"))
	require.Len(t, starts, 2)
	require.Len(t, ends, 2)
	require.Equal(t, server.Listener.Addr().String(), eventtest.Args(starts[0])["remote"])
	good := eventtest.Args(ends[0])
	require.Equal(t, []any{"", "example.com", uint64(tls.VersionTLS13), false}, []any{good["error"], good["server_name"], good["version"], good["resumed"]})
	require.NotZero(t, good["cipher_suite"])
	require.Equal(t, err.Error(), eventtest.Args(ends[1])["error"])
}

func TestIdle(t *testing.T) {
	probes := New(eventtest.Provider(t, "netprobe"))
	ctx := t.Context()
	conn, failed := net.Conn(&net.TCPConn{}), errors.New("not looked at")
	dial := probes.DialContext(func(got context.Context, _, _ string) (net.Conn, error) {
		if got != ctx {
			t.Error("the context is another one")
		}
		return conn, failed
	})
	l := probes.Listener(nowhere{})
	testenv.NotRaced(t, "the detector allocates")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if got, err := dial(ctx, "tcp", "x"); got != conn || err != failed {
			t.Error("the connection is another one")
		}
		_, _ = l.Accept()
	}))
}
