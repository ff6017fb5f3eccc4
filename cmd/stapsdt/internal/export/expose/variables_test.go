//go:build linux

package expose

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVariables: each variable of OTLP is obeyed, refused with its name and the reason, or said to have no effect.
func TestVariables(t *testing.T) {
	for variable, want := range map[string]struct{ refused, said string }{
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf":                                  {},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc":                                    {refused: `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="grpc" cannot be obeyed: it sends protobuf over HTTP only`},
		"OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=grpc":                                      {},
		"OTEL_EXPORTER_OTLP_PROTOCOL=":                                               {},
		"OTEL_EXPORTER_OTLP_COMPRESSION=GZIP":                                        {},
		"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION=zstd":                                {refused: `OTEL_EXPORTER_OTLP_METRICS_COMPRESSION="zstd" cannot be obeyed: it compresses with gzip or not at all`},
		"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=Delta":                    {},
		"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=both":                     {refused: `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE="both" cannot be obeyed: there are cumulative, delta and lowmemory`},
		"OTEL_EXPORTER_OTLP_TRACES_TEMPORALITY_PREFERENCE=delta":                     {said: "OTEL_EXPORTER_OTLP_TRACES_TEMPORALITY_PREFERENCE is not known, and has no effect"},
		"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=base2_exponential": {refused: `OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION="base2_exponential" cannot be obeyed: each rule chooses its buckets`},
		"OTEL_EXPORTER_OTLP_INSECURE=true":                                           {},
		"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY=key.pem":                               {},
		"OTEL_EXPORTER_OTLP_RETRIES=3":                                               {said: "OTEL_EXPORTER_OTLP_RETRIES is not known, and has no effect"},
		"OTEL_SERVICE_NAME=x":                                                        {},
	} {
		said := ""
		err := checkVariables([]string{"HOME=/", variable}, func(text string) { said += text })
		if want.refused == "" {
			require.NoError(t, err, variable)
		} else {
			require.ErrorContains(t, err, want.refused)
		}
		require.Equal(t, want.said, said, variable)
	}
}

// TestParseBase: the URL of a signal stands for its endpoint.
func TestParseBase(t *testing.T) {
	for text, want := range map[string]string{
		"http://h:4318": "http://h:4318", "http://h:4318/": "http://h:4318/", "http://h/base": "http://h/base",
		"http://h:4318/v1/metrics": "http://h:4318", "https://h/base/v1/traces/": "https://h/base", "http://h/v1/logs": "http://h/v1/logs",
	} {
		u, err := ParseBase(text)
		require.NoError(t, err)
		require.Equal(t, want, u.String())
	}
	_, err := ParseBase("h:4318/v1/metrics")
	require.Error(t, err)
}

// TestEndpointOfSignal: the variable of a signal has the whole URL for it.
func TestEndpointOfSignal(t *testing.T) {
	base, err := url.Parse("http://one:4318/base")
	require.NoError(t, err)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://two/spans")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://three:4318")
	for signal, want := range map[string]string{"metrics": "http://one:4318/base/v1/metrics", "traces": "https://two/spans"} {
		u, err := endpointOf(signal, base)
		require.NoError(t, err)
		require.Equal(t, want, u.String())
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "two:4318")
	_, err = endpointOf("traces", base)
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: the endpoint")
}
