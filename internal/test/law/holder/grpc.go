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

// rpcs are streams of a server that answers each message with itself. One is in flight, on
// both sides, until the client has said all.
type rpcs struct{ conn *grpc.ClientConn }

var echo = grpc.ServiceDesc{
	ServiceName: "Echo", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{StreamName: "Talk", Handler: talk, ServerStreams: true, ClientStreams: true}},
}

func talk(_ any, stream grpc.ServerStream) error {
	for {
		var m wrapperspb.StringValue
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

func newRPCs(p *stapsdt.Provider) operations {
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
	return rpcs{conn}
}

func (r rpcs) begin(n int) (operation, error) {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "traceparent", traceparent))
	stream, err := r.conn.NewStream(ctx, &echo.Streams[0], "/Echo/Talk")
	if err != nil {
		cancel()
		return nil, err
	}
	s := &rpc{stream, cancel, fmt.Sprint(n)}
	return s, s.say()
}

type rpc struct {
	grpc.ClientStream
	cancel func()
	text   string
}

func (r *rpc) say() error {
	if err := r.SendMsg(wrapperspb.String(r.text)); err != nil {
		return err
	}
	var m wrapperspb.StringValue
	if err := r.RecvMsg(&m); err != nil {
		return err
	}
	return differs(r.text, m.Value)
}

func (r *rpc) end() error {
	defer r.cancel()
	err := errors.Join(r.say(), r.CloseSend())
	if last := r.RecvMsg(new(wrapperspb.StringValue)); last != io.EOF {
		return errors.Join(err, fmt.Errorf("the stream ends with %w", last))
	}
	return err
}
