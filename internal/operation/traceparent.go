package operation

import (
	"encoding/hex"
	"strings"
)

// ParseTraceparent returns the IDs of a traceparent header, the W3C trace context of a request:
// VERSION-TRACE-SPAN-FLAGS in lower-case hexadecimal. A later version may append fields
// (https://www.w3.org/TR/trace-context/).
func ParseTraceparent(text string) (trace [16]byte, span [8]byte, ok bool) {
	const length = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if len(text) < length ||
		len(text) > length && (strings.HasPrefix(text, "00") || text[length] != '-') {
		return trace, span, false
	}
	part := strings.Split(text[:length], "-")
	var version, flags [1]byte
	ok = len(part) == 4 &&
		parseHex(version[:], part[0]) && version[0] != 0xff &&
		parseHex(trace[:], part[1]) && trace != [16]byte{} &&
		parseHex(span[:], part[2]) && span != [8]byte{} &&
		parseHex(flags[:], part[3])
	return trace, span, ok
}

// parseHex decodes all of dst.
func parseHex(dst []byte, text string) bool {
	if len(text) != 2*len(dst) || strings.ToLower(text) != text {
		return false
	}
	_, err := hex.Decode(dst, []byte(text))
	return err == nil
}
