//go:build linux

package export

import (
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"github.com/stretchr/testify/require"
)

// nothing is a source without metrics.
type nothing struct{}

func (nothing) Collect() ([]expose.Family, error) { return nil, nil }

// TestEndpointVariable: an endpoint that only the environment has is not obeyed, and the exporter says so. A variable that
// cannot be obeyed is an error.
func TestEndpointVariable(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1")
	const text = "stapsdt: nothing is sent to $OTEL_EXPORTER_OTLP_ENDPOINT: give --otlp to send metrics and spans\n"
	for otlp, want := range map[string]bool{"": true, "http://localhost:1": false} {
		var said strings.Builder
		o := &Options{Listen: "localhost:0", OTLP: otlp}
		require.NoError(t, o.check())
		out, err := o.open(t.Context(), &console.Console{Err: &said}, nothing{})
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(said.String(), text), said.String())
		_ = out.close() // nothing listens at the endpoint
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	o := &Options{OTLP: "http://localhost:1"}
	require.NoError(t, o.check())
	_, err := o.open(t.Context(), &console.Console{}, nothing{})
	require.ErrorContains(t, err, `--otlp: OTEL_EXPORTER_OTLP_PROTOCOL="grpc" cannot be obeyed`)
}
