package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
)

// exporter is a stapsdt export of the times of nats-server's functions.
type exporter struct {
	*exec.Cmd
	address string
}

// attached is a metric whose functions are attached to.
var attached = regexp.MustCompile(`(?m)^stapsdt_attached_sites\{.* [1-9]`)

// export starts an exporter. It is attached when this returns.
func export(functions []string) (*exporter, error) {
	rules := bytes.NewBufferString("budget: 1%\nmetrics:\n")
	for i, spec := range functions {
		fmt.Fprintf(rules, "  - {name: function_%d_seconds, probe: %q, duration: true, executable: nats-server, labels: []}\n", i, spec)
	}
	path := *work + "/rules.yaml"
	check(os.WriteFile(path, rules.Bytes(), 0o644))
	e := &exporter{program("stapsdt", "export", "-c", path, "--listen", "localhost:0"), ""}
	if err := until(e.Cmd, "metrics are at"); err != nil {
		return nil, err
	}
	e.address = regexp.MustCompile(`http://\S+`).FindString(e.Stderr.(*words).String())
	if body, err := e.metrics(); err != nil || !attached.Match(body) {
		stop(e.Cmd)
		return nil, errors.Join(fmt.Errorf("the exporter is not attached: %s", e.Stderr), err)
	}
	return e, nil
}

func (e *exporter) metrics() ([]byte, error) {
	response, err := http.Get(e.address)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// seen returns how many calls were timed.
func (e *exporter) seen() (calls int, err error) {
	body, err := e.metrics()
	for _, m := range regexp.MustCompile(`(?m)^function_\d+_seconds_count\S* (\d+)`).FindAllSubmatch(body, -1) {
		n, err := strconv.Atoi(string(m[1]))
		check(err)
		calls += n
	}
	return calls, err
}
