// Package tracer lets a program wait until the tracer that has started it has attached to its
// probes.
package tracer

import (
	"strings"
	"time"
)

// Variable is the environment variable that contains the path of the tracer's socket, of type
// SOCK_STREAM. A program connects to it after each load and sends nothing. The tracer attaches to
// the probes of the process, and closes the connection. cstapsdt/socket/tracer.c does the same.
//
// If the name of the socket has commas, each is followed by the name of a provider, and a load of
// others does not wait.
const Variable = "STAPSDT_TRACER"

// isAsked reports whether the tracer waits for one of some providers, by the path of its socket.
func isAsked(path string, providers []string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	_, listed, some := strings.Cut(name, ",")
	if !some {
		return true
	}
	for some {
		name, listed, some = strings.Cut(listed, ",")
		for _, p := range providers {
			if p == name {
				return true
			}
		}
	}
	return false
}

// Patience is the maximum time for which a program waits.
const Patience = time.Second
