//go:build linux

package layout

// SpanSpread keeps the spans of different processes apart.
const SpanSpread = 0x9E37_79B9_7F4A_7C15

// SpanID returns the ID of a span outside of its process. The IDs of spans are unique only within their process.
func SpanID(pid uint32, id uint64) uint64 { return id ^ uint64(pid)*SpanSpread }
