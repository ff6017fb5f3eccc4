//go:build linux

package expose

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve serves until the test ends, and returns where.
func serve(t *testing.T, config string, h http.Handler) string {
	t.Helper()
	s, err := Listen("127.0.0.1:0", config, h, quiet())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
		_, err := s.listener.Accept()
		assert.ErrorIs(t, err, net.ErrClosed, "the server still listens")
	})
	return s.listener.Addr().String()
}

func file(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// certificate writes cert.pem and key.pem, and returns a client that trusts them.
func certificate(t *testing.T, dir string) *http.Client {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	cert := s.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	require.NoError(t, err)
	file(t, dir, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	file(t, dir, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return s.Client()
}

// TestPages: the pages that people and machines look for.
func TestPages(t *testing.T) {
	h := handler(t, fixed{})
	page := get(t, h, "/", "").Body.String()
	for _, link := range []string{`href="/metrics"`, `href="/-/healthy"`} {
		assert.Contains(t, page, link)
	}
	get(t, h, "/-/healthy", "")
	for path, want := range map[string]int{"/other": http.StatusNotFound, "/debug/pprof/": http.StatusNotFound} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, want, w.Code, path)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code, "POST")
}

// TestWebConfig: certificates and users are those of Prometheus's exporters.
func TestWebConfig(t *testing.T) {
	dir := t.TempDir()
	client := certificate(t, dir)
	config := file(t, dir, "web.yml", []byte(`
tls_server_config: {cert_file: cert.pem, key_file: key.pem}
basic_auth_users: {prometheus: $2a$04$RsqU4PXyNZYUSKoRvdqhpu4r8PlqK2ARCGGpM0rJjjBaz/3c/AB8y}
`))
	addr := serve(t, config, handler(t, fixed{}))
	for password, want := range map[string]int{"probe": http.StatusOK, "other": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		r, err := http.NewRequest(http.MethodGet, "https://"+addr+"/metrics", nil)
		require.NoError(t, err)
		if password != "" {
			r.SetBasicAuth("prometheus", password)
		}
		w, err := client.Do(r)
		require.NoError(t, err)
		w.Body.Close()
		assert.Equal(t, want, w.StatusCode, "the password %q: %s", password, w.Status)
	}
	w, err := http.Get("http://" + addr + "/metrics")
	if err == nil {
		w.Body.Close()
		assert.NotEqual(t, http.StatusOK, w.StatusCode, "it answers without TLS too")
	}
}

// TestWrongWebConfig: a configuration that is wrong is an error before anything listens.
func TestWrongWebConfig(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"key.yml": "tls_server_config: {cert_file: missing.pem, key_file: missing.pem}", "field.yml": "tls: {}", "yaml.yml": "{",
	} {
		_, err := Listen("127.0.0.1:0", file(t, dir, name, []byte(text)), nil, quiet())
		assert.ErrorContains(t, err, name)
	}
	_, err := Listen("127.0.0.1:0", filepath.Join(dir, "missing.yml"), nil, quiet())
	assert.Error(t, err, "a file that is missing is no error")
}
