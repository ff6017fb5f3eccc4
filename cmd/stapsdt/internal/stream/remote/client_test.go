package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clientOf returns a client for an address.
func clientOf(t *testing.T, address string) *Client {
	t.Helper()
	a, err := ParseAddress(address)
	require.NoError(t, err)
	return NewClient(a)
}

// answering returns a client for a server that answers all requests alike, and the server's address.
func answering(t *testing.T, status int, kind, body string) (c *Client, address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return clientOf(t, server.URL), server.URL + defaultPath
}

// TestProbes: a listing has all that the program says, and each probe the name of its provider.
func TestProbes(t *testing.T) {
	c, _ := answering(t, 200, "application/json", `{"pid":7,"program":"app","providers":[
		{"name":"a","loaded":true,"path":"/tmp/a.so","probes":[{"name":"x","args":[{"name":"n","type":"int64"}],"sites":2,"traced":true},{"name":"y"}]},
		{"name":"b","probes":[{"name":"x"}],"later":1}]}`)
	l, err := c.Probes(t.Context())
	require.NoError(t, err)
	require.Equal(t, &Listing{PID: 7, Program: "app", Providers: []Provider{
		{Name: "a", Loaded: true, Path: "/tmp/a.so", Probes: []Probe{
			{Provider: "a", Name: "x", Args: []struct{ Name, Type string }{{"n", "int64"}}, Sites: 2, Traced: true}, {Provider: "a", Name: "y"},
		}},
		{Name: "b", Probes: []Probe{{Provider: "b", Name: "x"}}},
	}}, l)
}

// TestRefusals: an error says what the program has refused, or that there is no program, with the status and without control characters.
func TestRefusals(t *testing.T) {
	const asJSON = "application/json; charset=utf-8"
	for _, c := range []struct {
		status     int
		kind, body string
		want       string // # stands for the address
	}{
		{200, "text/html", "<html>", "there is no debugprobe at #: another server answered"},
		{200, asJSON, `{"providers":[]}`, "there is no debugprobe at #: another server answered"},
		{404, "text/plain", "", "there is no debugprobe at #: 404 Not Found"},
		{401, "text/plain", "", "#: 401 Unauthorized; give USER:PASSWORD@ before the host"},
		{500, "text/plain", "secret", "#: 500 Internal Server Error"},
		{403, asJSON, `{"error":{"message":"it is forbidden\u001b[7m"}}`, "it is forbidden\ufffd[7m"},
		{400, asJSON, `{"error":{"message":"m","text":"n = 1\n\t  ^ wrong"}}`, "n = 1\n\t  ^ wrong"},
		{400, "text/plain", `{"error":{"message":"m"}}`, "#: 400 Bad Request"},
		{503, asJSON, `{"error":{}}`, "#: 503 Service Unavailable"},
		{503, asJSON, `{"error":{"message":"` + strings.Repeat("m", 1<<20) + `"}}`, "#: 503 Service Unavailable"},
	} {
		client, address := answering(t, c.status, c.kind, c.body)
		_, err := client.Probes(t.Context())
		var refusal *Error
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, strings.ReplaceAll(c.want, "#", address), refusal.Error())
		if c.status != 200 {
			require.Equal(t, c.status, refusal.Status)
			_, watchErr := client.Watch(t.Context(), nil)
			require.Equal(t, err, watchErr)
		}
	}
}

// TestUnreachable: the error of a request that no program has answered has the address without the password.
func TestUnreachable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := clientOf(t, "http://me:secret@localhost:1").Probes(ctx)
	require.EqualError(t, err, "http://me:xxxxx@localhost:1/debug/probes/: context canceled")
}

// TestReached: a program is reached with the name and the password of an address, and at its Unix domain socket.
func TestReached(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		fmt.Fprintf(w, `{"pid":7,"program":%q}`, name+" "+password+" "+r.URL.Path)
	})
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	l, err := clientOf(t, strings.Replace(server.URL, "//", "//me:p%40ss@", 1)+"/p").Probes(t.Context())
	require.NoError(t, err)
	require.Equal(t, "me p@ss /p/probes.json", l.Program)
	socket := filepath.ToSlash(filepath.Join(t.TempDir(), "s"))
	if !strings.HasPrefix(socket, "/") {
		t.Skip("a path of Windows is no address")
	}
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server = httptest.NewUnstartedServer(answer)
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	l, err = clientOf(t, "http://unix:"+socket+":/p").Probes(t.Context())
	require.NoError(t, err)
	require.Equal(t, "  /p/probes.json", l.Program)
}
