// Package time has types with names of the standard library's, for tests.
package time

// Time and Duration are only numbers.
type (
	Time     int64
	Duration int64
)
