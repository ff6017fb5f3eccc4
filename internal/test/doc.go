// Package test has the harnesses and the tests that need more than the users of the
// package should download, or more time than its developers have at each change.
// They are a module of their own.
//
//	arguments   every argument, as a BPF program sees it
//	bench       what probes cost, beside what else there is: scripts/bench.sh
//	bpf         BPF programs that record and count what is fired
//	browser     package debugprobe's page, in a real browser
//	clocks      what programs record by each clock, beside what they have fired
//	cluster     kubectl stapsdt in pods without Kubernetes
//	command     the command stapsdt, on our programs and on other people's
//	corpus      the probes of other people's programs, read by us and by others
//	debian      the files of Debian's packages, for tests
//	docs        what README, the examples and the guides tell a reader to run, and what it prints
//	elsewhere   the types of our packages for other architectures and systems
//	fleet       the exporter, and what Prometheus and a collector get from it
//	functions   the function probes of interpreters, and the scripts for them
//	gofunctions functions of Go programs: each argument and result, and every call once
//	instrument  the packages in instrument/, with net/http's own tests, real databases and OpenTelemetry
//	kernels     the library on one kernel after another: scripts/lib/kernels.sh
//	kubernetes  the manifests, and the commands of the guides, on a cluster: scripts/kubernetes.sh
//	languages   the bindings of the C library, in their languages
//	law         being traced costs a program what SECURITY.md says, and changes nothing in it
//	notes       the notes of images of any names and arguments, read back
//	objects     checks what the command prints with -o json, by its schema
//	postgres    starts servers of PostgreSQL
//	process     programs that are traced, attacked, killed, or whose system calls fail
//	proxy       serves the modules of this repository, and installs them from there
//	sandbox     seccomp filters, namespaces, and systems without this or that
//	servers     a module of its own, with what services pay for their probes: scripts/servers.sh
//	soak        compares what was fired with what was seen, for a long time
//	tracetest   lets a test attach real tracers to a probe
//	tracers     every tracer that can be had, and what it prints: scripts/lib/tracers.sh
//	values      what tests fire, and what a tracer must show of it
package test
