// Package instrument tests the packages in instrument/ with the tests of what they wrap, with real databases, and with
// OpenTelemetry's instrumentation.
package instrument
