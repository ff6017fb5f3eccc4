package recording

import (
	"strconv"
	"strings"
)

// ParseSize parses a number of bytes, optionally with the suffix K, M or G. It returns 0 for anything else.
func ParseSize(text string) int64 {
	shift := 0
	if last := len(text) - 1; last >= 0 {
		if i := strings.IndexByte("KMG", text[last]); i >= 0 {
			text, shift = text[:last], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(text, 10, 63-shift)
	if err != nil {
		return 0
	}
	return int64(n) << shift
}
