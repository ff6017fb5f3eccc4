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

// The addresses and errors of an RPC can have any type, and their methods may belong to the
// program. These functions recognize the types with other methods, and call only these.

// address returns the text of an address. It is empty unless the type is from package net, or
// is that of a gRPC server that net/http serves, which is a string.
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

// These are the types of errors that have methods of gRPC or of package fmt only.
var (
	statusType  = reflect.TypeOf(status.Error(codes.Unknown, ""))
	wrapperType = reflect.TypeOf(fmt.Errorf("%w", context.Canceled))
)

// code returns the code of an error. It is Unknown if only a method of the program could
// return it.
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
