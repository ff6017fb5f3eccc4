package otelprobe

import sdktrace "go.opentelemetry.io/otel/sdk/trace"

// Sampler returns a sampler that decides as next does, except that a span that next drops is
// recorded while the probes are traced. The span is not sampled, and so the SDK's own
// processors do not export it.
//
// No other part of the package changes what a program does while it is traced. Do not use Sampler
// in a program in which one of these differences matters:
//
//   - IsRecording is true. Code that tests it computes attributes and events that it does not
//     compute otherwise. The effects of that code, and its errors, then occur only while
//     traced.
//   - The program's own processors get these spans. They must look at the span's context, as for
//     every sampler that decides RecordOnly.
//   - Each of these spans takes as much time and memory as a sampled one. Until it ends, the SDK
//     keeps what the program gives it, within [sdktrace.SpanLimits]: by default 128 attributes,
//     events and links each, of any length.
//
// A nil next stands for the SDK's default, which samples a span if its parent is sampled, and every
// span without a parent. The variable OTEL_TRACES_SAMPLER has no effect then, as with every sampler
// that a program chooses. AlwaysSample drops nothing, and is returned as it is.
func (p *Probes) Sampler(next sdktrace.Sampler) sdktrace.Sampler {
	if next == nil {
		next = sdktrace.ParentBased(sdktrace.AlwaysSample())
	}
	if next == sdktrace.AlwaysSample() {
		return next
	}
	return &sampler{next, p}
}

type sampler struct {
	next   sdktrace.Sampler
	probes *Probes
}

// ShouldSample uses one variable for the result, because each copy takes time.
func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) (result sdktrace.SamplingResult) {
	result = s.next.ShouldSample(p)
	if result.Decision == sdktrace.Drop && s.probes.enabled() {
		result.Decision = sdktrace.RecordOnly
	}
	return result
}

func (s *sampler) Description() string { return "stapsdt{" + s.next.Description() + "}" }
