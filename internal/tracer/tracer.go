// Package tracer lets a program wait until the tracer that has started it has attached to its
// probes.
package tracer

import "time"

// Variable is the environment variable that contains the path of the tracer's socket, of type
// SOCK_STREAM. A program connects to it after each load and sends nothing. The tracer attaches to
// the probes of the process, and closes the connection. cstapsdt/socket/tracer.c does the same.
const Variable = "STAPSDT_TRACER"

// Patience is the maximum time for which a program waits.
const Patience = time.Second
