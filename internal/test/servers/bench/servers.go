package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/test/servers/way"
)

// A server is a program, how it is started and loaded, and the ways in which it is measured.
type server struct {
	name, unit string
	short      string                              // in the table of those that have probes
	start      func(address, way string) *exec.Cmd // with one of package way, or with the argument that a way gives
	load       client
	events     int // for each request, of each spec
	ways       []watch
}

// A watch is a way in which a server is watched.
type watch struct {
	name, way string
	record    bool
	count     []string // routes by which stapsdt count gets the events
	specs     []string // what is counted, if it is not the server's probes
	flags     []string // of stapsdt count
	other     bool     // the number of events does not follow from that of requests
	export    []string // functions whose calls an exporter times
}

// instrumented are the ways of a server with probes, next to its peer of OpenTelemetry.
func instrumented(otel string) []watch {
	return []watch{
		{name: "nothing", way: way.None},
		{name: "probes, idle", way: way.Probes},
		{name: "probes, **recorded**", way: way.Probes, record: true},
		{name: "probes, counted **by the socket**", way: way.Probes, count: []string{"socket"}},
		{name: "probes, counted **by the kernel**", way: way.Probes, count: []string{"kernel"}},
		{name: "all three at once", way: way.Probes, record: true, count: []string{"socket", "kernel"}},
		{name: otel, way: way.Otel},
		{name: "log/slog, JSON", way: way.Slog},
	}
}

// functions are the ways of nats-server.
func functions() []watch {
	const client = "go:github.com/nats-io/nats-server/v2/server.(*client)."
	kernel, message := []string{"kernel"}, client+"processInboundMsg"
	both := []string{message, message + ":return"}
	var ten []string
	for _, name := range []string{
		"parse", "processPub", "processInboundMsg", "processInboundClientMsg", "processMsgResults",
		"deliverMsg", "flushOutbound", "flushClients", "processPing", "closeConnection",
	} {
		ten = append(ten, client+name)
	}
	return []watch{
		{name: "nothing"},
		{name: "what a client sends at once, counted (`parse`)", count: kernel, specs: []string{client + "parse"}, other: true},
		{name: "each message counted (`processInboundMsg`)", count: kernel, specs: both[:1]},
		{name: "each message and its return counted", count: kernel, specs: both},
		{name: "the same with `--budget 1%`", count: kernel, specs: both, flags: []string{"--budget", "1%"}, other: true},
		{name: "the times of ten functions in `export`, with `budget: 1%`", export: ten},
		{name: "each message in the server's own log (`-V`)", way: "-V"},
	}
}

func servers() []server {
	nats := func(address, flag string) *exec.Cmd {
		args := []string{"-a", host, "-p", port(address)}
		if flag != "" {
			args = append(args, flag, "-l", *work+"/log")
		}
		return program("nats-server", args...)
	}
	return []server{
		{"Caddy with httpprobe, a file of 4 KB, wrk", "requests", "Caddy, httpprobe", caddy, wrk, 2, instrumented("otelhttp (Caddy's `tracing`)")},
		{"pgx with sqlprobe, transactions of pgbench, wrk", "transactions", "pgx, sqlprobe", func(address, _ string) *exec.Cmd {
			return program("sql", address, *postgres)
		}, wrk, 8, instrumented("otelsql")},
		{"miniredis with a probe, redis-benchmark", "commands", "miniredis, a probe", func(address, _ string) *exec.Cmd {
			return program("redis", address)
		}, redisBenchmark, 1, instrumented("OpenTelemetry, a span")},
		{"nats-server, requests and replies, nats bench", "requests", "", nats, natsRequests, 2, functions()},
		{"nats-server, messages to nobody, nats bench", "messages", "", nats, natsPublish, 1, functions()},
	}
}

// caddy serves a file. Before its handler stands another, if the way has one.
func caddy(address, w string) *exec.Cmd {
	handler := map[string]string{
		way.Probes: `{"handler": "probes"},`, way.Slog: `{"handler": "slog"},`, way.Otel: `{"handler": "tracing", "span": "request"},`,
	}[w]
	config := fmt.Sprintf(`{"admin": {"disabled": true}, "logging": {"logs": {"default": {"level": "ERROR"}}},
		"apps": {"http": {"servers": {"s": {"listen": [%q], "automatic_https": {"disable": true}, "routes": [{"handle": [
			%s {"handler": "file_server", "root": %q}]}]}}}}}`, address, handler, *work+"/site")
	check(os.MkdirAll(*work+"/site", 0o755))
	check(os.WriteFile(*work+"/site/index.html", slices.Repeat([]byte("0123456789abcde\n"), 256), 0o644))
	check(os.WriteFile(*work+"/caddy.json", []byte(config), 0o644))
	cmd := program("caddy", "run", "--config", *work+"/caddy.json")
	cmd.Env = append(cmd.Env, "OTEL_TRACES_EXPORTER=none") // the spans are sampled, batched and discarded
	return cmd
}
