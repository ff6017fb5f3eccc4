package operation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTraceparent(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for text, valid := range map[string]bool{
		"00-" + trace + "-" + parent + "-01":                   true,
		"cc-" + trace + "-" + parent + "-00":                   true,
		"cc-" + trace + "-" + parent + "-00-more":              true,
		"00-" + trace + "-" + parent + "-01-more":              false,
		"cc-" + trace + "-" + parent + "-00more":               false,
		"ff-" + trace + "-" + parent + "-01":                   false,
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01": false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":  false,
		"00-" + strings.ToUpper(trace) + "-" + parent + "-01":  false,
		"00-" + trace + "x" + parent + "-01":                   false,
		"00-" + trace[1:] + "--" + parent + "-01":              false,
		"0x-" + trace + "-" + parent + "-01":                   false,
		"00-" + trace + "-" + parent + "-0":                    false,
		"":                                                     false, "00": false,
	} {
		id, spanID, ok := ParseTraceparent(text)
		require.Equal(t, valid, ok, text)
		if ok {
			require.Equal(t, trace+parent, fmt.Sprintf("%x%x", id, spanID))
		}
	}
}
