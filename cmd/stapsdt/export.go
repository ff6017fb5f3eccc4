//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// exporting is the command export.
type exporting struct {
	*session
	config, listen, web, otlp string

	print string // "" for exporting
}

// defaultListen is for a Prometheus, or its agent, on the same machine.
const defaultListen = "localhost:9964"

func (s *session) exportCommand() *cobra.Command {
	x := &exporting{session: s}
	c := &cobra.Command{
		Use:   "export -c FILE [--listen ADDR] [--otlp ENDPOINT]",
		Short: "Make metrics of probes for Prometheus, and metrics and spans for OpenTelemetry",
		Long: `Count in the kernel the events of the probes that a file of rules names, in every process on
the machine, in containers too. Prometheus asks for the metrics at /metrics. With --otlp, the
metrics and the spans that the rules name are sent by the OpenTelemetry protocol.

The file is read again when it changes, and on SIGHUP. A rule that stays the same goes on
counting. If the file is wrong, the rules in force stay.`,
		Example: `  stapsdt export -c rules.yaml
  stapsdt export -c rules.yaml --listen :9964 --web.config.file web.yaml
  stapsdt export -c rules.yaml --otlp http://localhost:4318
  stapsdt export -c rules.yaml --print alerts >alerts.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("export takes no arguments: the rules name the probes")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return x.run(c.Context()) },
	}
	c.Flags().StringVarP(&x.config, "config", "c", "", "the `FILE` of rules")
	c.Flags().StringVar(&x.listen, "listen", "", "answer Prometheus at this `ADDR`, such as :9964 (default "+defaultListen+", and with --otlp not at all)")
	c.Flags().StringVar(&x.web, "web.config.file", "", "the `FILE` with certificates and users, as Prometheus's exporters have it")
	c.Flags().StringVar(&x.otlp, "otlp", "", "send metrics and spans to this `ENDPOINT`, such as http://localhost:4318")
	c.Flags().StringVar(&x.print, "print", "", "only check the rules and print `WHAT` follows from them: alerts for Prometheus, or a dashboard for Grafana")
	_ = c.RegisterFlagCompletionFunc("print", cobra.FixedCompletions([]string{"alerts", "dashboard"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// printed prints what follows from the rules.
func (x *exporting) printed() error {
	if x.print != "alerts" && x.print != "dashboard" {
		return usagef("print what? Give --print alerts or --print dashboard")
	}
	file, err := rules.Read(x.config)
	if err != nil {
		return err
	}
	text := rules.Alerts(file)
	if x.print == "dashboard" {
		text = rules.Dashboard(file)
	}
	_, err = x.stdout.Write(text)
	return err
}

// check checks where metrics go, before anything is attached to.
func (x *exporting) check() error {
	if x.listen == "" && x.otlp == "" {
		x.listen = defaultListen
	}
	if x.listen != "" {
		_, port, err := net.SplitHostPort(x.listen)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return usagef("--listen takes HOST:PORT or :PORT, such as localhost:9964 or :9964, and not %q", x.listen)
		}
	}
	if x.otlp != "" {
		if err := expose.CheckEndpoint(x.otlp); err != nil {
			return usagef("--otlp: %w", err)
		}
	}
	return nil
}

func (x *exporting) run(ctx context.Context) (err error) {
	if x.config == "" {
		return usagef("which rules? Give -c FILE")
	}
	if x.print != "" {
		return x.printed()
	}
	if err := x.check(); err != nil {
		return err
	}
	// A hangup ends other commands.
	signal.Reset(unix.SIGHUP)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	defer signal.Stop(hangup)

	e := &exporter{session: x.session, config: x.config, sink: func(expose.Span) {}}
	defer e.close()
	if err := e.open(); err != nil {
		return err
	}
	out, err := x.open(ctx, e)
	if err != nil {
		return err
	}
	err = e.run(out.ctx, hangup)
	// What was fired until now is in what is sent last.
	return errors.Join(err, e.detach(), out.close())
}

// outputs are where metrics and spans go.
type outputs struct {
	*session
	ctx    context.Context // is done if the exporter is to end
	cancel context.CancelCauseFunc
	served chan struct{}
	otlp   *expose.OTLP
}

// open begins to answer and to send.
func (x *exporting) open(ctx context.Context, e *exporter) (o *outputs, err error) {
	own := prometheus.NewRegistry()
	own.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(
		// Two of those of MemStats have one name in OpenMetrics.
		collectors.WithGoCollectorMemStatsMetricsDisabled(), collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsMemory)))
	metrics := expose.NewMetrics(e, own)
	log := slog.New(slog.NewTextHandler(x.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o = &outputs{session: x.session, served: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancelCause(ctx)
	if x.otlp != "" {
		if o.otlp, err = expose.NewOTLP(ctx, x.otlp, metrics, log); err != nil {
			return nil, fmt.Errorf("--otlp: %w", err)
		}
		e.sink = o.otlp.Span
	}
	if x.listen == "" {
		close(o.served)
		return o, nil
	}
	handler, err := expose.NewHandler(metrics)
	if err != nil {
		return nil, err
	}
	server, err := expose.Listen(x.listen, x.web, handler, log)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", x.listen, unwrapped(err))
	}
	x.warn("metrics are at %s/metrics", server.URL())
	go func() {
		defer close(o.served)
		o.cancel(server.Serve(o.ctx))
	}()
	return o, nil
}

// unwrapped returns why an address cannot be listened at, without the layers of package net.
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

// sending is how long what was counted last may take to be sent.
const sending = 5 * time.Second

// close ends the answering and the sending. Its error is why the server ended.
func (o *outputs) close() error {
	o.cancel(nil)
	<-o.served
	var errs []error
	if err := context.Cause(o.ctx); err != nil && !errors.Is(err, context.Canceled) {
		errs = append(errs, err)
	}
	if o.otlp != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sending)
		defer cancel()
		if err := o.otlp.Shutdown(ctx); err != nil { // which is no reason to say that the exporter failed
			o.warn("what was counted last was not sent: %v", err)
		}
	}
	return errors.Join(errs...)
}
