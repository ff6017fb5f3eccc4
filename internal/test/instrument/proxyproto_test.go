package instrument

import (
	"net"
	"net/http"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/netprobe"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/pires/go-proxyproto"
	"github.com/stretchr/testify/require"
)

// TestSilentPeer: a connection that never sends the PROXY header that its RemoteAddr waits for
// does not delay the requests of others while connections are observed.
func TestSilentPeer(t *testing.T) {
	p := eventtest.Provider(t, "silent")
	probes := netprobe.New(p)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := probes.Listener(&proxyproto.Listener{Listener: inner, ReadHeaderTimeout: 2 * testenv.Patience})
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go server.Serve(listener)
	defer server.Close()
	accepted := make(chan struct{}, 10)
	defer p.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "accept" {
			accepted <- struct{}{}
		}
	})()
	silent, err := net.Dial("tcp", inner.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testenv.Patience}
	answer, err := client.Get("http://" + inner.Addr().String())
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	<-accepted
	<-accepted
}
