package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParseAddress: an address has a host or a socket, a path that ends in a slash, and no password when it is shown.
func TestParseAddress(t *testing.T) {
	for text, want := range map[string]struct{ shown, asked, socket string }{
		"http://localhost:6060":            {"http://localhost:6060/debug/probes/", "http://localhost:6060/debug/probes/", ""},
		"https://host/other":               {"https://host/other/", "https://host/other/", ""},
		"http://[::1]:80/p":                {"http://[::1]:80/p/", "http://[::1]:80/p/", ""},
		"http://me:secret@host/":           {"http://me:xxxxx@host/debug/probes/", "http://me:secret@host/debug/probes/", ""},
		"http://unix:/run/app.sock":        {"http://unix:/run/app.sock:/debug/probes/", "http://localhost/debug/probes/", "/run/app.sock"},
		"http://unix:/run/app.sock:/other": {"http://unix:/run/app.sock:/other/", "http://localhost/other/", "/run/app.sock"},
	} {
		a, err := ParseAddress(text)
		require.NoError(t, err, text)
		require.Equal(t, want.shown, a.String())
		require.Equal(t, want.asked, a.at("", nil))
		require.Equal(t, want.asked+"events?filter=a+%26%26+b", a.at("events", map[string][]string{"filter": {"a && b"}}))
		require.Equal(t, want.socket, a.socket)
	}
	for text, want := range map[string]string{
		"http:///path":                    `"http:///path" has no host`,
		"http://me:secret@host/?filter=x": `"http://me:xxxxx@host/?filter=x" has a query`,
		"http://host/#x":                  "has a query",
		"http://unix:run/app.sock":        "where SOCKET is an absolute path",
		"http://me:secret@host:port/":     "the address is not a URL",
	} {
		_, err := ParseAddress(text)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}
