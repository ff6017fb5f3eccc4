package netprobe_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/netprobe"
)

func Example() {
	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	probes := netprobe.New(shop)
	// A program loads the provider here, or all providers: see package probeenv.

	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	listener := probes.Listener(l)  // for http.Serve
	dial := probes.DialContext(nil) // for an http.Transport
	defer listener.Close()

	// An observer stands in for a tracer.
	stop := shop.Observe(func(e *stapsdt.Event) {
		switch e.Probe().Name() {
		case "dial__end", "accept":
			fmt.Printf("%v %v error=%q\n", e.Probe(), e.ArgByName("network"), e.ArgByName("error"))
		}
	})
	defer stop()
	client, err := dial(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	served, err := listener.Accept()
	if err != nil {
		log.Fatal(err)
	}
	defer served.Close()
	// Output:
	// shop:dial__end tcp error=""
	// shop:accept tcp error=""
}

// A client handshakes in its DialTLSContext.
func ExampleProbes_Handshake() {
	supplier := httptest.NewTLSServer(nil)
	defer supplier.Close()
	config := supplier.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"

	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	probes := netprobe.New(shop)
	dial := probes.DialContext(nil)
	client := &http.Client{Transport: &http.Transport{
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			conn := tls.Client(dialed, config)
			if err := probes.Handshake(ctx, conn); err != nil {
				dialed.Close()
				return nil, err
			}
			return conn, nil
		},
	}}
	defer client.CloseIdleConnections()

	stop := shop.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "handshake__end" {
			version := tls.VersionName(uint16(e.ArgByName("version").Uint64()))
			fmt.Println(e.ArgByName("server_name"), version, "resumed:", e.ArgByName("resumed"))
		}
	})
	defer stop()
	response, err := client.Get(supplier.URL)
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	// Output: example.com TLS 1.3 resumed: false
}
