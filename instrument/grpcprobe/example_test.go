package grpcprobe_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/grpcprobe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func Example() {
	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	served := grpcprobe.NewServer(shop)
	calls := grpcprobe.NewClient(shop)
	// A program loads the provider here, or all providers: see package probeenv.

	server := grpc.NewServer(grpc.StatsHandler(served.StatsHandler()))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithStatsHandler(calls.StatsHandler()),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	// An observer stands in for a tracer.
	stop := shop.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "rpc__end" {
			code := codes.Code(e.ArgByName("code").Uint64())
			fmt.Println(e.ArgByName("method"), code)
		}
	})
	defer stop()
	ask := &grpc_health_v1.HealthCheckRequest{Service: "orders"}
	_, err = grpc_health_v1.NewHealthClient(conn).Check(context.Background(), ask)
	server.GracefulStop() // It waits for the handler.
	fmt.Println(err)
	// Output:
	// /grpc.health.v1.Health/Check NotFound
	// rpc error: code = NotFound desc = unknown service
}
