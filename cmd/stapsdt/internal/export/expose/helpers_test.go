//go:build linux

package expose

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
)

// fixed is a source of the same families always.
type fixed []Family

func (f fixed) Collect() ([]Family, error) { return f, nil }

// failing is a source that has some families only.
type failing struct{ fixed }

func (f failing) Collect() ([]Family, error) { return f.fixed, io.ErrUnexpectedEOF }

// The formats that Prometheus asks for.
const (
	protobufs   = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	openMetrics = "application/openmetrics-text;version=1.0.0"
)

// start is when counting began.
var start = time.Unix(1_700_000_000, 0)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func handler(t *testing.T, source Collector) http.Handler {
	t.Helper()
	h, err := NewHandler(NewMetrics(source, prometheus.NewRegistry()))
	require.NoError(t, err)
	return h
}

func get(t *testing.T, h http.Handler, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	return w
}

// scrape returns the families by their names, as a client that understands this format reads
// them.
func scrape(t *testing.T, h http.Handler, accept string) map[string]*dto.MetricFamily {
	t.Helper()
	w := get(t, h, "/metrics", accept)
	decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	families := map[string]*dto.MetricFamily{}
	for {
		var f dto.MetricFamily
		err := decoder.Decode(&f)
		if err == io.EOF {
			return families
		}
		require.NoError(t, err)
		families[f.GetName()] = &f
	}
}

// series returns the values of a family's counters and gauges, by their labels.
func series(f *dto.MetricFamily) map[string]float64 {
	values := map[string]float64{}
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.Label {
			labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
		values[strings.Join(labels, ",")] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return values
}
