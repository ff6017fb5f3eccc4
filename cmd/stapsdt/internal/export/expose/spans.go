//go:build linux

package expose

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

// scope names the instrumentation scope of the spans and the metrics.
const scope = "github.com/go-stapsdt/stapsdt/cmd/stapsdt"

// convertSpans converts spans for OTLP, grouped by process.
func convertSpans(spans []Span) (all []*trace.ResourceSpans) {
	of := map[process]*trace.ScopeSpans{}
	for i := range spans {
		s := &spans[i]
		p := process{s.Provider, s.Executable, s.Container, s.PID}
		if of[p] == nil {
			of[p] = &trace.ScopeSpans{Scope: &common.InstrumentationScope{Name: scope}}
			all = append(all, &trace.ResourceSpans{
				Resource:   &resource.Resource{Attributes: p.attributes()},
				ScopeSpans: []*trace.ScopeSpans{of[p]},
			})
		}
		of[p].Spans = append(of[p].Spans, s.convert())
	}
	return all
}

func (s *Span) convert() *trace.Span {
	converted := &trace.Span{
		TraceId: s.TraceID[:], SpanId: spanID(s.SpanID), Name: Repaired(s.Name),
		Kind:              trace.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanoseconds(s.Start), EndTimeUnixNano: nanoseconds(s.End),
	}
	if s.Parent != 0 {
		converted.ParentSpanId = spanID(s.Parent)
	}
	if s.Error != "" {
		converted.Status = &trace.Status{
			Code:    trace.Status_STATUS_CODE_ERROR,
			Message: Repaired(s.Error),
		}
	}
	for _, a := range s.Attributes {
		converted.Attributes = append(converted.Attributes, keyValue(a.Name, a.Value))
	}
	return converted
}

// spanID returns the bytes in the order of an exemplar's digits.
func spanID(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func nanoseconds(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

// keyValue returns an attribute for OTLP. OTLP has no unsigned integers: a number that is too large
// becomes a string, as OpenTelemetry specifies.
func keyValue(key string, value any) *common.KeyValue {
	if v, ok := value.(uint64); ok {
		if value = int64(v); v > math.MaxInt64 {
			value = strconv.FormatUint(v, 10)
		}
	}
	converted := &common.AnyValue{}
	switch v := value.(type) {
	case int64:
		converted.Value = &common.AnyValue_IntValue{IntValue: v}
	case float64:
		converted.Value = &common.AnyValue_DoubleValue{DoubleValue: v}
	case bool:
		converted.Value = &common.AnyValue_BoolValue{BoolValue: v}
	default:
		converted.Value = &common.AnyValue_StringValue{StringValue: Repaired(fmt.Sprint(v))}
	}
	return &common.KeyValue{Key: Repaired(key), Value: converted}
}
