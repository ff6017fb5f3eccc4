//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/proberec"
)

// watch is a way in which the program watches its own probes.
type watch interface {
	// leave ends it and returns how many events were seen of each probe.
	leave() map[string]int64
}

// watches begin to watch. The answer is what the program says then.
var watches = map[string]func(p *stapsdt.Provider) (w watch, answer string, err error){
	"observe": observe,
	"record":  record,
	"page":    serve,
}

// observation counts the events that an observer sees.
type observation struct {
	stop   func()
	counts map[string]*atomic.Int64
}

func observe(p *stapsdt.Provider) (watch, string, error) {
	o := &observation{counts: map[string]*atomic.Int64{}}
	for _, probe := range p.Probes() {
		o.counts[probe.Name()] = new(atomic.Int64)
	}
	o.stop = p.Observe(func(e *stapsdt.Event) { o.counts[e.Probe().Name()].Add(1) })
	return o, "watched", nil
}

func (o *observation) leave() map[string]int64 {
	o.stop()
	seen := map[string]int64{}
	for name, count := range o.counts {
		seen[name] = count.Load()
	}
	return seen
}

// recording is a flight recorder, which has the last events only.
type recording struct{ *proberec.Recorder }

func record(p *stapsdt.Provider) (watch, string, error) {
	r := recording{proberec.New(1<<20, p)}
	r.Start()
	return r, "watched", nil
}

func (r recording) leave() map[string]int64 {
	r.Stop()
	var lines bytes.Buffer
	if _, err := r.WriteJSON(&lines); err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
	}
	seen := map[string]int64{}
	for d := json.NewDecoder(&lines); d.More(); {
		var event struct{ Probe string }
		if err := d.Decode(&event); err != nil {
			fmt.Fprintln(os.Stderr, "holder:", err)
			break
		}
		seen[event.Probe]++
	}
	return seen
}

// page serves debugprobe's page, whose viewers count the events.
type page struct{ server *http.Server }

func serve(*stapsdt.Provider) (watch, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	s := &http.Server{Handler: debugprobe.Handler()}
	go s.Serve(l)
	return page{s}, "watched http://" + l.Addr().String() + "/", nil
}

func (p page) leave() map[string]int64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil { // it ends the streams
		fmt.Fprintln(os.Stderr, "holder:", err)
	}
	return nil
}
