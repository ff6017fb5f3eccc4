//go:build linux && (amd64 || arm64)

package docs_test

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// freeAddress returns an address that nothing listens on, because other programs may use the
// port that a document names. The host is one that no other program takes a port of by chance.
func freeAddress(t *testing.T) string {
	t.Helper()
	pid := os.Getpid()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+pid>>16, pid>>8&255, pid&255))
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// program writes a document's program into the directory.
func (d *document) program(t *testing.T, code string) {
	t.Helper()
	require.NoError(t, os.WriteFile(d.dir+"/main.go", []byte(code), 0o600))
}

// served is the address at which a document's program serves.
var served = regexp.MustCompile(`localhost:\d+`)

// server is program for one that serves. It returns the address that the
// program has instead.
func (d *document) server(t *testing.T, code string) (address string) {
	t.Helper()
	require.Regexp(t, served, code)
	address = freeAddress(t)
	d.program(t, served.ReplaceAllString(code, address))
	return address
}

// inModule makes a module of the directory, and runs a command in it. The module needs this one and what this one needs,
// which was downloaded for this test: nothing else is.
func (d *document) inModule(t *testing.T, path, command string) {
	t.Helper()
	const this = "github.com/go-stapsdt/stapsdt"
	d.run(t, "go mod init "+path+"; go mod edit -require "+this+"@v0.0.0 -replace "+this+"="+repository(t)+"; cp "+repository(t)+"/go.sum .; "+
		"export GOPROXY=off GOFLAGS=-mod=mod GOWORK=off; "+command)
}

// launch starts a program of the directory that no other test's probes can be taken for.
func (d *document) launch(t *testing.T, name string) *tracetest.Process {
	t.Helper()
	return d.start(t, "env STAPSDT_DIR="+t.TempDir()+"/images ./"+name)
}

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// buildCommand builds stapsdt, which the commands of a document then find.
func buildCommand(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(tracetest.Build(t, "../../../cmd/stapsdt"), dir+"/stapsdt"))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}
