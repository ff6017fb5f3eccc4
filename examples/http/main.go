// Command http is a small shop whose requests and queries tracers can see.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
)

func main() {
	address := flag.String("listen", "localhost:8080", "address to serve at")
	file := flag.String("db", "shop.db", "file of the database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *address, *file); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx is done.
func run(ctx context.Context, address, file string) error {
	app := stapsdt.NewProvider("shop")
	requests := httpprobe.NewServer(app)
	queries := sqlprobe.New(app)
	if err := app.Load(); err != nil {
		log.Print(err) // the probes stay no-ops
	}
	defer app.Close()

	s, err := openShop(ctx, file, queries)
	if err != nil {
		return err
	}
	defer s.db.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("process %d serves http://%s\n", os.Getpid(), listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("/", requests.Handler(s.routes()))
	mux.Handle("/debug/probes/", debugprobe.Handler()) // for those who can reach localhost
	server := &http.Server{Handler: mux}
	shutdown := func() error { return server.Shutdown(context.WithoutCancel(ctx)) }
	defer context.AfterFunc(ctx, func() { _ = shutdown() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	// Serve returns when Shutdown begins: wait for the requests that are still running.
	return shutdown()
}
