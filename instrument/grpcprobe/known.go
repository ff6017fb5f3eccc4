package grpcprobe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An RPC has addresses and errors of any type, whose methods are the program's. These functions
// know the types whose methods are not.

// address returns the text of an address. It is empty if its type is none of package net, nor
// that of a gRPC server that net/http serves, which is a string.
func address(a net.Addr) string {
	switch a := a.(type) {
	case *net.TCPAddr, *net.UnixAddr, *net.UDPAddr, *net.IPAddr:
		return a.String()
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.String && v.Type().PkgPath() == "google.golang.org/grpc/internal/transport" {
		return v.String()
	}
	return ""
}

// These are the types of errors whose methods are gRPC's and package fmt's.
var (
	statusType  = reflect.TypeOf(status.Error(codes.Unknown, ""))
	wrapperType = reflect.TypeOf(fmt.Errorf("%w", context.Canceled))
)

// code returns the code of an error, which is Unknown if only a method of the program's could
// tell it.
func code(err error) codes.Code {
	for reflect.TypeOf(err) == wrapperType {
		err = errors.Unwrap(err)
	}
	switch {
	case err == nil || reflect.TypeOf(err) == statusType:
		return status.Code(err)
	case err == context.Canceled:
		return codes.Canceled
	case err == context.DeadlineExceeded:
		return codes.DeadlineExceeded
	}
	return codes.Unknown
}
