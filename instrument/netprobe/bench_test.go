package netprobe

import (
	"context"
	"net"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
)

// BenchmarkDial and BenchmarkAccept measure what the probes add to operations that take no
// time themselves.
func BenchmarkDial(b *testing.B) {
	p := eventtest.Provider(b, "netprobe")
	conn := net.Conn(&net.TCPConn{})
	next := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	dial := New(p).DialContext(next)
	measure(b, p, func() { _, _ = dial(b.Context(), "tcp", "x") })
}

func BenchmarkAccept(b *testing.B) {
	p := eventtest.Provider(b, "netprobe")
	l := New(p).Listener(nowhere{})
	measure(b, p, func() { _, _ = l.Accept() })
}

func measure(b *testing.B, p *stapsdt.Provider, run func()) {
	loop := func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			run()
		}
	}
	b.Run("idle", loop)
	defer p.Observe(func(*stapsdt.Event) {})()
	b.Run("observed", loop)
}
