//go:build linux

package layout

// SpanSpread keeps the spans of different processes apart.
const SpanSpread = 0x9E37_79B9_7F4A_7C15

// SpanID returns an ID that a span has outside of its process, in which the numbers of spans
// are unique.
func SpanID(pid uint32, id uint64) uint64 { return id ^ uint64(pid)*SpanSpread }
