//go:build linux

package expose

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// scope names what has made the spans.
const scope = "github.com/go-stapsdt/stapsdt/cmd/stapsdt"

// convertSpans returns spans for OTLP, sorted by the processes that they are of.
func convertSpans(spans []Span) (all []*trace.ResourceSpans) {
	of := map[process]*trace.ScopeSpans{}
	for i := range spans {
		s := &spans[i]
		p := process{s.Provider, s.Executable, s.Container, s.PID}
		if of[p] == nil {
			of[p] = &trace.ScopeSpans{Scope: &common.InstrumentationScope{Name: scope}}
			all = append(all, &trace.ResourceSpans{Resource: p.resource(), ScopeSpans: []*trace.ScopeSpans{of[p]}})
		}
		of[p].Spans = append(of[p].Spans, s.convert())
	}
	return all
}

func (s *Span) convert() *trace.Span {
	converted := &trace.Span{
		TraceId: s.TraceID[:], SpanId: spanID(s.SpanID), Name: repaired(s.Name), Kind: trace.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanoseconds(s.Start), EndTimeUnixNano: nanoseconds(s.End),
	}
	if s.Parent != 0 {
		converted.ParentSpanId = spanID(s.Parent)
	}
	if s.Error != "" {
		converted.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: repaired(s.Error)}
	}
	for _, a := range s.Attributes {
		converted.Attributes = append(converted.Attributes, keyValue(a))
	}
	return converted
}

// spanID has the bytes in the order in which an exemplar has the digits.
func spanID(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func nanoseconds(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

// keyValue returns an attribute for OTLP, which has no unsigned integers: one that is too great
// is a text, as OpenTelemetry specifies.
func keyValue(a Attribute) *common.KeyValue {
	key := attribute.Key(a.Name)
	switch v := a.Value.(type) {
	case int64:
		return number(key, v)
	case uint64:
		if v > math.MaxInt64 {
			return text(key, strconv.FormatUint(v, 10))
		}
		return number(key, int64(v))
	case float64:
		return pair(key, &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: v}})
	case bool:
		return pair(key, &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v}})
	default:
		return text(key, fmt.Sprint(v))
	}
}

func text(key attribute.Key, value string) *common.KeyValue {
	return pair(key, &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: repaired(value)}})
}

func number(key attribute.Key, value int64) *common.KeyValue {
	return pair(key, &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}})
}

func pair(key attribute.Key, value *common.AnyValue) *common.KeyValue {
	return &common.KeyValue{Key: repaired(string(key)), Value: value}
}
