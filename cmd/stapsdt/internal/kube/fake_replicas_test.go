//go:build unix

package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/trace"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"

	"github.com/spf13/pflag"
)

// runVerb runs a verb as the command does.
func runVerb(pods replay.Replicas, args []string) int {
	var config query.Config
	var by, show []string
	var format string
	var limit uint64
	flags := pflag.NewFlagSet(args[0], pflag.ContinueOnError)
	flags.StringArrayVar(&by, "by", nil, "")
	flags.StringArrayVar(&show, "show", nil, "")
	flags.StringVar(&format, "output", "", "")
	flags.StringVar(&config.Where, "where", "", "")
	flags.Uint64Var(&limit, "number", 0, "")
	if err := flags.Parse(args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	config.Specs, config.Format = querytest.Specs(flags.Args()...), query.Format(format)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	to, from := &console.Console{Out: os.Stdout, Err: os.Stderr}, replay.From{Replicas: pods}
	var err error
	switch args[0] {
	case "count":
		o := count.Options{From: from}
		o.By = by
		err = count.Run(ctx, to, config, o)
	case "trace":
		err = trace.Run(ctx, to, config, trace.Options{From: from, TextSize: 100, Limit: limit, Show: show})
	}
	var status interface{ ExitStatus() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		to.Warn("%v", err)
		return status.ExitStatus()
	}
	to.Warn("%v", err)
	return statusOf(err)
}

// eventsOfPod is how many events a pod of the fake fires.
const eventsOfPod = 1000

// increments sends a recording of a pod, until a line comes or the pod is deleted. The pod's name decides what becomes of it.
func (f *fake) increments(command []string, in *bufio.Reader) int {
	names := strings.Split(value(command, "pod"), "/")
	if strings.HasPrefix(names[1], "refused") {
		fmt.Fprintln(os.Stderr, "stapsdt: no such probe: the process has no shop:done")
		fmt.Fprintln(os.Stderr, "command terminated with exit code 3")
		return 3
	}
	bytes := recording.ParseSize(value(command, "size"))
	chunks := recorder.Chunks(bytes)
	w := recorder.New(make([]byte, recorder.Size(chunks)), chunks, recorder.Options{Foreign: true})
	number, _ := w.AddProbe(&recording.Probe{Provider: "shop", Name: "done", Args: []recording.Arg{
		{Name: "n", Kind: kind.Uint64, Type: 8}, {Name: "route", Kind: kind.String, Type: kind.TypeString},
	}})
	fmt.Fprintln(os.Stderr, "stapsdt: a warning of every pod")
	s, err := mirror.NewSender(os.Stdout, w)
	if err == nil {
		_, err = s.Send()
	}
	if err != nil {
		return f.fail(err.Error())
	}
	for n := range uint64(eventsOfPod) {
		w.AppendForeign(number, w.Now(), 7, 8, []uint64{n, 1}, []string{"/"})
	}
	ended := make(chan struct{})
	go func() {
		_, _ = in.ReadString('\n')
		w.Close()
		close(ended)
	}()
	go func() {
		for f.exists(names[1]) {
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Fprintln(os.Stderr, "command terminated with exit code 137")
		os.Exit(137)
	}()
	_, _ = s.Send() // before the test goes on and may delete the pod
	f.log("sending " + names[1])
	if names[1] == "lost" {
		fmt.Fprintln(os.Stderr, "error: error reading from error stream: unexpected EOF")
		return 1
	}
	if err := s.Run(ended); err != nil {
		return 1
	}
	f.log("sent all of " + names[1])
	return 0
}

// exists reports whether a pod is in the cluster now.
func (f *fake) exists(name string) bool {
	now := &fake{directory: f.directory}
	return now.read() != nil || slices.ContainsFunc(now.Pods, func(p pod) bool { return p.Metadata.Name == name })
}
