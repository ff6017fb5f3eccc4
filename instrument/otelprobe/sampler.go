package otelprobe

import sdktrace "go.opentelemetry.io/otel/sdk/trace"

// Sampler returns a sampler that decides as next does, except that a span that next drops is
// recorded while the probes are traced. IsRecording is then true for the program, which may
// give the span attributes that it has not computed before. The span is not sampled, and so
// the SDK's own processors do not export it; one of the program's own must look at the
// span's context, as it must for every sampler that decides RecordOnly.
//
// If next is nil, it is the SDK's default, which samples a span if its parent is sampled, and
// every span without a parent. The variable OTEL_TRACES_SAMPLER has no effect then, as with every sampler
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

// ShouldSample has one variable for the result, because each copy of it takes time.
func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) (result sdktrace.SamplingResult) {
	result = s.next.ShouldSample(p)
	if result.Decision == sdktrace.Drop && s.probes.enabled() {
		result.Decision = sdktrace.RecordOnly
	}
	return result
}

func (s *sampler) Description() string { return "stapsdt{" + s.next.Description() + "}" }
