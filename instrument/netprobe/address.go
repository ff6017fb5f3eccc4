package netprobe

import (
	"crypto/tls"
	"net"
)

// addresses returns the addresses of a connection that package net has made, or of a TLS
// connection over such a one, and otherwise nil. The methods of other types belong to the
// program.
func addresses(conn net.Conn) (local, remote net.Addr) {
	over, ok := conn.(*tls.Conn)
	for ok && over != nil {
		conn = over.NetConn()
		over, ok = conn.(*tls.Conn)
	}
	var made bool
	switch c := conn.(type) {
	case *net.TCPConn:
		made = c != nil
	case *net.UnixConn:
		made = c != nil
	case *net.UDPConn:
		made = c != nil
	case *net.IPConn:
		made = c != nil
	}
	if !made {
		return nil, nil
	}
	return conn.LocalAddr(), conn.RemoteAddr()
}

// listening returns the address of a listener of package net, or nil. One that has not been
// made by package net panics.
func listening(l net.Listener) (local net.Addr) {
	defer func() { _ = recover() }()
	return l.Addr()
}

// text returns an address of package net as text. A zero connection has none.
func text(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// network returns an address's network.
func network(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.Network()
}
