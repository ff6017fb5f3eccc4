package debugprobe

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeaders: every answer forbids the browser what the page does not need.
func TestHeaders(t *testing.T) {
	for _, target := range []string{"/", "/page.js", "/page.css", "/probes.json", "/events?x=y", "/recorder.json", "/recording.rec", "/nothing", "/events?probe=none"} {
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		h := w.Header()
		policy := h.Get("Content-Security-Policy")
		require.True(t, strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; "), target)
		require.Contains(t, policy, "frame-ancestors 'none'")
		require.Contains(t, policy, "require-trusted-types-for 'script'")
		require.NotContains(t, policy, "unsafe")
		require.NotContains(t, policy, "*")
		require.NotContains(t, policy, "http")
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"))
		require.Equal(t, "no-store", h.Get("Cache-Control"))
		require.Empty(t, h.Get("Access-Control-Allow-Origin"))
	}
}

// TestPageIsInert: what the security policy forbids is not in the page, so that it works; and
// nothing turns text into HTML.
func TestPageIsInert(t *testing.T) {
	html, err := files.ReadFile("page/index.html")
	require.NoError(t, err)
	for _, forbidden := range []string{`(?i)<script[^>]*>[^<]`, `(?i)<style`, `(?i)\sstyle=`, `(?i)\son[a-z]+=`, `https?:`, `//`} {
		require.NotRegexp(t, regexp.MustCompile(forbidden), string(html))
	}
	js, err := files.ReadFile("page/page.js")
	require.NoError(t, err)
	for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "https:", "setTimeout(\"", "DOMParser", "createContextualFragment"} {
		require.NotContains(t, string(js), forbidden)
	}
	css, err := files.ReadFile("page/page.css")
	require.NoError(t, err)
	require.NotContains(t, string(css), "url(")
	require.NotContains(t, string(css), "@import")
}

// TestOtherSites: a browser may follow a link to the page from another site, and do nothing
// else for it.
func TestOtherSites(t *testing.T) {
	for _, c := range []struct {
		site, mode, dest, target string
		status                   int
	}{
		{"", "", "", "/probes.json", 200}, // not a browser
		{"none", "navigate", "document", "/", 200},
		{"none", "navigate", "document", "/probes.json", 200},
		{"same-origin", "cors", "empty", "/probes.json", 200},
		{"cross-site", "navigate", "document", "/", 200},
		{"cross-site", "navigate", "iframe", "/", 403},
		{"cross-site", "navigate", "document", "/probes.json", 403},
		{"cross-site", "no-cors", "image", "/events", 403},
		{"cross-site", "cors", "empty", "/probes.json", 403},
		{"cross-site", "no-cors", "script", "/page.js", 403},
		{"same-site", "cors", "empty", "/events", 403},
		{"anything", "", "", "/", 403},
	} {
		r := httptest.NewRequest("GET", c.target, nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode, "Sec-Fetch-Dest": c.dest} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, c)
	}
}

// TestRebinding: a foreign name that leads to an address of this machine is not served.
func TestRebinding(t *testing.T) {
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	for _, c := range []struct {
		addr   net.Addr
		host   string
		status int
	}{
		{local, "localhost", 200},
		{local, "LOCALHOST.:8080", 200},
		{local, "app.localhost:8080", 200},
		{local, "127.0.0.1:8080", 200},
		{local, "127.9.9.9", 200},
		{local, "[::1]:8080", 200},
		{local, "[::ffff:127.0.0.1]:8080", 200},
		{&net.TCPAddr{IP: net.IPv6loopback}, "evil.example", 403},
		{local, "evil.example", 403},
		{local, "evil.example:8080", 403},
		{local, "localhost.evil.example", 403},
		{local, "127.0.0.1.evil.example", 403},
		{local, "evillocalhost", 403},
		{local, "10.0.0.1", 403},
		{local, "<script>", 403},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, "app.example", 200}, // who may come is not ours to say
		{&net.UnixAddr{Name: "/run/app.sock"}, "app.example", 200},
		{nil, "app.example", 200},
	} {
		r := httptest.NewRequest("GET", "/probes.json", nil)
		r.Host = c.host
		if c.addr != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.addr))
		}
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, c)
		require.NotContains(t, w.Body.String(), "<")
	}
	server := newServer(t)
	r, err := http.NewRequest("GET", server.URL+"/debug/probes/", nil)
	require.NoError(t, err)
	r.Host = "evil.example"
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, 403, answer.StatusCode)
}
