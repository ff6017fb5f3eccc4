//go:build linux && (amd64 || arm64)

package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// webConfig is what exporter-toolkit reads. The password is "probe".
const webConfig = `
tls_server_config: {cert_file: cert.pem, key_file: key.pem, min_version: TLS13}
basic_auth_users: {prometheus: $2a$04$RsqU4PXyNZYUSKoRvdqhpu4r8PlqK2ARCGGpM0rJjjBaz/3c/AB8y}
`

// TestWebConfig: Prometheus scrapes an exporter that has a certificate and asks for a password,
// and not without.
func TestWebConfig(t *testing.T) {
	needs(t, "it starts Prometheus")
	const provider = "fleet_web"
	dir := t.TempDir()
	certificate(t, dir)
	config := filepath.Join(dir, "web.yaml")
	require.NoError(t, os.WriteFile(config, []byte(webConfig), 0o600))
	e := here.exports(t, provider, rules, "127.0.0.1:0", "--web.config.file", config)
	for password, up := range map[string]float64{"probe": 1, "wrong": 0} {
		p := startPrometheus(t, map[string]any{
			"scheme":     "https",
			"tls_config": map[string]string{"ca_file": filepath.Join(dir, "cert.pem")},
			"basic_auth": map[string]string{"username": "prometheus", "password": password},
		}, []string{e.addr})
		p.Gives(map[string]float64{"{}": up}, "sum(up)")
		p.Gives(map[string]float64{"{}": up}, "count(stapsdt_rules_reload_success) or vector(0)")
	}
	p := StartPrometheus(t, e.addr)
	p.Gives(map[string]float64{"{}": 0}, "sum(up)")
}

// certificate writes cert.pem and key.pem.
func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}
