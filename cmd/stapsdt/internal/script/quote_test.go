//go:build linux

package script

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuote: what every bpftrace takes as it is, is written as it is.
func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"azAZ09_": "azAZ09_", "a-b.c": "a-b.c", "/usr/lib/a.so": "/usr/lib/a.so", "/a b": `"/a b"`,
		"a`": "\"a`\"", "a[": `"a["`, "a@": `"a@"`, "a;": `"a;"`, `a\b`: `"a\\\\b"`, "ä": `"ä"`,
	} {
		require.Equal(t, want, quote(name))
	}
}

// TestFormatName: a format prints the name, whatever it contains.
func TestFormatName(t *testing.T) {
	for name, want := range map[string][2]string{
		"a:b": {"a:b", ""}, `a\n`: {`a\\n`, ""}, "50%:%d": {"50%s:%sd", `, "%", "%"`},
	} {
		format, args := formatName(name)
		require.Equal(t, want, [2]string{format, args})
	}
}
