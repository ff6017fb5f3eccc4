//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/grpcprobe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var echo = grpc.ServiceDesc{
	ServiceName: "Echo", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{StreamName: "Talk", Handler: talk, ServerStreams: true, ClientStreams: true}},
}

func talk(_ any, stream grpc.ServerStream) error {
	for {
		var m wrapperspb.Int64Value
		if err := stream.RecvMsg(&m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(&m); err != nil {
			return err
		}
	}
}

// newRPCs returns streams of a server that answers each message with itself. One is in flight, on both sides, until the
// client has said all.
func newRPCs(p *stapsdt.Provider) begin {
	l := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.StatsHandler(grpcprobe.NewServer(p).StatsHandler()))
	server.RegisterService(&echo, nil)
	go server.Serve(l)
	conn, err := grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(grpcprobe.NewClient(p).StatsHandler()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		panic(err) // the target is invalid
	}
	return func(n int) (end, error) {
		ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "traceparent", traceparent))
		stream, err := conn.NewStream(ctx, &echo.Streams[0], "/Echo/Talk")
		if err != nil {
			cancel()
			return nil, err
		}
		return func() error {
			defer cancel()
			err := errors.Join(say(stream, n), stream.CloseSend())
			if last := stream.RecvMsg(new(wrapperspb.Int64Value)); last != io.EOF {
				return errors.Join(err, fmt.Errorf("the stream ends with %w", last))
			}
			return err
		}, say(stream, n)
	}
}

// say sends a message, and receives it.
func say(stream grpc.ClientStream, n int) error {
	if err := stream.SendMsg(wrapperspb.Int64(int64(n))); err != nil {
		return err
	}
	var m wrapperspb.Int64Value
	if err := stream.RecvMsg(&m); err != nil {
		return err
	}
	return differs(int64(n), m.Value)
}
