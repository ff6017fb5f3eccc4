// Command http is a small shop whose requests, queries, orders, connections and logs tracers
// can see.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
	"github.com/go-stapsdt/stapsdt/instrument/netprobe"
	"github.com/go-stapsdt/stapsdt/instrument/slogprobe"
	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
	"github.com/go-stapsdt/stapsdt/proberec"
	"github.com/go-stapsdt/stapsdt/probesock"
	"github.com/go-stapsdt/stapsdt/span"
)

func main() {
	address := flag.String("listen", "localhost:8080", "address to serve at")
	source := flag.String("db", "shop.db", "file of a SQLite database, or postgres://… for PostgreSQL")
	supplier := flag.String("supplier", "", "URL of the supplier; by default the shop is its own")
	name := flag.String("name", "shop", "name of the probes' provider")
	watched := flag.Bool("socket", false, "let other processes of this user watch the probes")
	recording := flag.String("record", "", "file that keeps the last events, such as /dev/shm/shop.rec")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *watched {
		listener, err := probesock.Listen()
		if err != nil {
			log.Fatal(err)
		}
		defer listener.Close()
	}
	if err := run(ctx, *name, *address, *source, *supplier, *recording); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx is done.
func run(ctx context.Context, name, address, source, supplier, recording string) error {
	app := stapsdt.NewProvider(name)
	requests := httpprobe.NewServer(app)
	fetches := httpprobe.NewClient(app)
	connections := netprobe.New(app)
	queries := sqlprobe.New(app)
	logs := slogprobe.New(app)
	s := &shop{
		log:    slog.New(logs.Handler(slog.NewTextHandler(os.Stderr, nil))),
		waits:  span.NewOperation[waitStart, waitEnd](app, "pool"),
		orders: span.NewOperation[orderStart, orderEnd](app, "order"),
	}
	if err := app.Load(); err != nil {
		s.log.Error("the probes stay no-ops", "error", err)
	}
	defer app.Close()
	var recorder *proberec.Recorder
	var err error
	if recording != "" {
		if recorder, err = record(recording, app, s.log); err != nil {
			return err
		}
		defer recorder.Close()
	}
	if s.db, err = openDatabase(ctx, source, queries); err != nil {
		return err
	}
	defer s.db.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	if supplier == "" {
		supplier = fmt.Sprintf("http://%s/supplier?ms=20", listener.Addr())
	}
	s.supplier = supplier
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = connections.DialContext((&net.Dialer{}).DialContext)
	s.client = &http.Client{Transport: fetches.Transport(transport)}

	fmt.Printf("process %d serves http://%s\n", os.Getpid(), listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("/", requests.Handler(s.routes()))
	debugprobe.Mount(mux, recorder) // for those who can reach localhost
	server := &http.Server{Handler: mux}
	shutdown := func() error { return server.Shutdown(context.WithoutCancel(ctx)) }
	defer context.AfterFunc(ctx, func() { _ = shutdown() })()
	if err := server.Serve(connections.Listener(listener)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	// Serve returns when Shutdown begins: wait for the requests that are still running.
	return shutdown()
}
