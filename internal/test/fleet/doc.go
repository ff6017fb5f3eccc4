// Package fleet gathers what exporters send, in tests: it starts Prometheus and
// an OpenTelemetry Collector, and asks them.
package fleet
