package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// load is what a client says of the load that it made.
type load struct {
	requests       int
	rate, p50, p99 float64 // per second, microseconds
}

// A client loads a server for about some seconds. One that makes a number of requests takes it from the rate, which is 0
// before anything is known of it.
type client func(address string, seconds int, rate float64) (load, error)

// connections is how many requests can be under way, and so how many more events than requests there can be.
const connections = 8

func wrk(address string, seconds int, _ float64) (l load, err error) {
	out, err := run(program("wrk", "-t1", "-c"+strconv.Itoa(connections), fmt.Sprintf("-d%ds", seconds), "--latency", "http://"+address+"/"))
	if err != nil {
		return l, err
	}
	if strings.Contains(out, "Non-2xx") || strings.Contains(out, "Socket errors") {
		return l, fmt.Errorf("failed requests: %s", out)
	}
	return parse(out, `(\d+) requests in `, `Requests/sec: +([\d.]+)`, `50% +([\d.]+[mu]?s)`, `99% +([\d.]+[mu]?s)`)
}

func redisBenchmark(address string, seconds int, rate float64) (load, error) {
	n := number(rate, seconds, 10_000)
	out, err := run(program("redis-benchmark", "-h", host, "-p", port(address), "-t", "set", "-c", strconv.Itoa(connections), "-n", n, "-r", "10000", "--csv"))
	if err != nil {
		return load{}, err
	}
	// "SET", requests per second, average, minimum, p50, p95, p99, maximum in milliseconds
	_, row, _ := strings.Cut(out, `"SET",`)
	columns := strings.Split(strings.ReplaceAll(row, `"`, ""), ",")
	if len(columns) != 7 {
		return load{}, fmt.Errorf("redis-benchmark printed %s", out)
	}
	return parse(fmt.Sprintf("%s %s %sms %sms", n, columns[0], columns[3], columns[5]),
		`^(\d+)`, `^\d+ ([\d.]+)`, `([\d.]+ms) `, `([\d.]+ms)$`)
}

func natsRequests(address string, seconds int, rate float64) (load, error) {
	const name = "requests"
	serve := program("nats", "-s", address, "bench", "service", "serve", name, "--no-progress")
	if err := until(serve, "Starting Core NATS service server, hit"); err != nil {
		return load{}, err
	}
	defer stop(serve)
	time.Sleep(50 * time.Millisecond) // its subscription is there
	return natsBench(address, number(rate, seconds, 1600), "service", "request", name)
}

func natsPublish(address string, seconds int, rate float64) (load, error) {
	l, err := natsBench(address, number(rate, seconds, 48_000), "pub", "messages")
	l.p50, l.p99 = 0, 0 // nobody answers: those are of writing to a buffer
	return l, err
}

// natsBench returns the aggregate of several clients.
func natsBench(address, n string, args ...string) (load, error) {
	args = append([]string{"-s", address, "bench"}, args...)
	out, err := run(program("nats", append(args, "--clients", strconv.Itoa(connections), "--msgs", n, "--no-progress")...))
	if err != nil {
		return load{}, err
	}
	_, out, _ = strings.Cut(out, "aggregated stats: ")
	return parse(n+" "+strings.ReplaceAll(out, ",", ""), `^(\d+)`, `^\d+ (\d+) msgs/sec`, `P50 ([\d.]+us)`, `P99 ([\d.]+us)`)
}

// number is how many requests take some seconds, a multiple of the connections.
func number(rate float64, seconds, first int) string {
	if rate == 0 {
		return strconv.Itoa(first)
	}
	return strconv.Itoa(max(1, int(rate*float64(seconds))/connections) * connections)
}

// parse finds the number of requests, their rate and two latencies by what stands in the brackets of expressions.
func parse(out, requests, rate, p50, p99 string) (load, error) {
	var found []string
	for _, expression := range []string{requests, rate, p50, p99} {
		m := regexp.MustCompile(expression).FindStringSubmatch(out)
		if m == nil {
			return load{}, fmt.Errorf("no %s in %s", expression, out)
		}
		found = append(found, m[1])
	}
	n, err := strconv.Atoi(found[0])
	check(err)
	perSecond, err := strconv.ParseFloat(found[1], 64)
	check(err)
	return load{n, perSecond, microseconds(found[2]), microseconds(found[3])}, nil
}

func microseconds(text string) float64 {
	d, err := time.ParseDuration(text)
	check(err)
	return float64(d) / 1000
}
