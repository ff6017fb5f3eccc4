//go:build linux && (amd64 || arm64)

package instrument

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/otelprobe"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	sdktest "go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// otelSpans prints what it sees of spans, and pairs them as pairing does.
const otelSpans = `
usdt:FILE:otelspans:span__start
{
	@began[arg0] = nsecs;
	printf("start %llx %llx %s %s %s %d\n", arg0, arg1, str(arg2), str(arg3), str(arg4), arg5);
}

usdt:FILE:otelspans:span__context { printf("context %llx %llx %llx %llx\n", arg0, arg1, arg2, arg3); }

usdt:FILE:otelspans:span__end
/@began[arg0]/
{
	printf("end %llx %llx %d %s %s %s\n", arg0, arg1, arg2 > 0, str(arg3), str(arg4), str(arg5));
	delete(@began[arg0]);
}

END
{
	print(@began);
}`

// TestOpenTelemetry: bpftrace sees the spans of a program that samples and exports none.
func TestOpenTelemetry(t *testing.T) {
	p := stapsdt.NewProvider("otelspans", stapsdt.WithDir(t.TempDir()))
	probes := otelprobe.New(p)
	require.NoError(t, p.Load())
	defer func() { require.NoError(t, p.Close()) }()
	exported := sdktest.NewInMemoryExporter()
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(probes.SpanProcessor()),
		sdktrace.WithSampler(probes.Sampler(sdktrace.NeverSample())), sdktrace.WithSyncer(exported))
	tracer := sdk.Tracer("example.com/scope")
	_, untraced := tracer.Start(t.Context(), "untraced")
	require.False(t, untraced.IsRecording())
	tr := tracetest.Bpftrace(t, strings.ReplaceAll(otelSpans, "FILE", p.Path()), "-p", strconv.Itoa(os.Getpid()))

	var want []string
	for i := range 10 {
		ctx, outer := tracer.Start(context.Background(), fmt.Sprint("GET /", i), trace.WithSpanKind(trace.SpanKindServer))
		_, inner := tracer.Start(ctx, "query")
		inner.SetStatus(codes.Error, "no such table")
		ended := make(chan bool)
		go func() { // not the goroutine that started it
			inner.End()
			close(ended)
		}()
		<-ended
		outer.End()
		o, n := hex(outer.SpanContext().SpanID().String()), hex(inner.SpanContext().SpanID().String())
		id := outer.SpanContext().TraceID().String()
		want = append(want,
			fmt.Sprintf("start %s 0 GET /%d server example.com/scope 0", o, i), fmt.Sprintf("context %s %s %[3]s %[1]s", o, hex(id[:16]), hex(id[16:])),
			fmt.Sprintf("start %s %s query internal example.com/scope 0", n, o), fmt.Sprintf("context %s %s %[3]s %[1]s", n, hex(id[:16]), hex(id[16:])),
			fmt.Sprintf("end %s %s 1 no such table query Error", n, o), fmt.Sprintf("end %s 0 1  GET /%d Unset", o, i))
	}
	untraced.End()
	tr.WaitLines(len(want), testenv.Patience)
	require.ElementsMatch(t, want, strings.Split(strings.TrimSpace(tr.Stop()), "\n"))
	require.Empty(t, exported.GetSpans())
}

// hex returns an id's text as %x prints its number.
func hex(id string) string { return strings.TrimLeft(id, "0") }
