//go:build linux

package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"
)

// Options select the rules, and the destinations of metrics and spans.
type Options struct {
	// Rules is the file of rules.
	Rules string
	// Listen is the address of the server for Prometheus, or "". Web is a file with certificates
	// and users, in the format of Prometheus's exporters.
	Listen, Web string
	// OTLP is the endpoint of a collector, or "".
	OTLP string
	// Via selects the source of the events: query.ViaKernel or query.ViaSocket, or "" for the
	// kernel if this user may use it.
	Via string

	endpoint *url.URL // OTLP, or nil
}

// DefaultListen suits a Prometheus, or its agent, on the same machine.
const DefaultListen = "localhost:9964"

// check checks the destinations before the exporter attaches to anything.
func (o *Options) check() (err error) {
	if o.Listen == "" && o.OTLP == "" {
		o.Listen = DefaultListen
	}
	if o.Listen != "" {
		_, port, err := net.SplitHostPort(o.Listen)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return query.Usagef("--listen takes HOST:PORT or :PORT, such as localhost:9964 or :9964, not %q", o.Listen)
		}
	}
	if o.OTLP != "" {
		if o.endpoint, err = expose.ParseBase(o.OTLP); err != nil {
			return query.Usagef("--otlp: %w", err)
		}
	}
	return nil
}

// Run exports until ctx is done.
func Run(ctx context.Context, to *console.Console, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	// A hangup ends other commands, but makes this command read its rules again.
	signal.Reset(unix.SIGHUP)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	defer signal.Stop(hangup)

	if o.Via != query.ViaSocket {
		err := o.runTraced(ctx, to, hangup)
		if o.Via == query.ViaKernel || !source.Replaces(err) {
			return err
		}
		if !rights.None() {
			to.Warn("%v", err)
		}
	}
	return o.runSockets(ctx, to, hangup)
}

func (o *Options) runTraced(
	ctx context.Context, to *console.Console, hangup <-chan os.Signal,
) error {
	e := newExporter(to, o.Rules)
	defer e.close()
	if err := e.open(); err != nil {
		return err
	}
	out, err := o.open(ctx, to, e)
	if err != nil {
		return err
	}
	if out.otlp != nil {
		e.Spans = out.otlp.Span
	}
	err = e.run(out.ctx, hangup)
	to.Finish()
	// The last message includes all events until now.
	return errors.Join(err, e.detach(), out.close())
}

func (o *Options) runSockets(
	ctx context.Context, to *console.Console, hangup <-chan os.Signal,
) error {
	e, err := newSocketExporter(to, o.Rules)
	if err != nil {
		return err
	}
	to.Warn("only the programs of this user that listen are watched, by their sockets")
	out, err := o.open(ctx, to, e)
	if err != nil {
		return err
	}
	err = e.run(out.ctx, hangup)
	to.Finish()
	return errors.Join(err, out.close())
}

type outputs struct {
	*console.Console
	ctx    context.Context // done when the exporter must end
	cancel context.CancelCauseFunc
	served chan struct{}
	otlp   *expose.OTLP
}

// open starts the server and the sender of a source's metrics.
func (options *Options) open(
	ctx context.Context, to *console.Console, source expose.Collector,
) (o *outputs, err error) {
	own := prometheus.NewRegistry()
	own.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(
			// Two MemStats metrics have the same name in OpenMetrics.
			collectors.WithGoCollectorMemStatsMetricsDisabled(),
			collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsMemory),
		),
	)
	metrics := expose.NewMetrics(source, own)
	log := slog.New(slog.NewTextHandler(to.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o = &outputs{Console: to, served: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancelCause(ctx)
	if options.endpoint != nil {
		complain := rule.NewComplaints(to).Complain
		if o.otlp, err = expose.NewOTLP(ctx, options.endpoint, metrics, complain); err != nil {
			return nil, fmt.Errorf("--otlp: %w", err)
		}
	} else if os.Getenv(expose.EndpointVariable) != "" {
		to.Warn("nothing is sent to $%s: give --otlp to send metrics and spans", expose.EndpointVariable)
	}
	if options.Listen == "" {
		close(o.served)
		return o, nil
	}
	handler, err := expose.NewHandler(metrics)
	if err != nil {
		return nil, err
	}
	server, err := expose.Listen(options.Listen, options.Web, handler, log)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", options.Listen, unwrapped(err))
	}
	to.Warn("metrics are at %s/metrics", server.URL())
	go func() {
		defer close(o.served)
		o.cancel(server.Serve(o.ctx))
	}()
	return o, nil
}

// unwrapped returns the cause of an error from Listen, without the layers of package net.
func unwrapped(err error) error {
	var no unix.Errno
	var unknown *net.DNSError
	switch {
	case errors.As(err, &no):
		return no
	case errors.As(err, &unknown):
		return fmt.Errorf("the host %q is unknown", unknown.Name)
	}
	return err
}

// sendTimeout limits the time for sending the last metrics and spans.
const sendTimeout = 5 * time.Second

// close stops the server and the sender. It returns the error that ended the server.
func (o *outputs) close() error {
	o.cancel(nil)
	<-o.served
	var errs []error
	if err := context.Cause(o.ctx); err != nil && !errors.Is(err, context.Canceled) {
		errs = append(errs, err)
	}
	if o.otlp != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
		defer cancel()
		if err := o.otlp.Shutdown(ctx); err != nil { // this is not a failure of the exporter
			o.Warn("the last metrics and spans were not sent: %v", err)
		}
	}
	return errors.Join(errs...)
}
