//go:build linux

package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// User is the superuser, who needs no password, and the name of the database.
const User = "shop"

// Server is a server that runs until its test ends.
type Server struct {
	*tracetest.Process
	Socket string // the directory of its socket
	bin    string
}

// Start starts a server.
func Start(t testing.TB) *Server {
	t.Helper()
	bin := programs(t)
	// Not t.TempDir: the server's user must be able to enter it, and the path of a socket
	// is short.
	dir, err := os.MkdirTemp("", "postgres")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	owner := owner()
	if owner != nil {
		require.NoError(t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
		return cmd
	}
	out, err := command("initdb", "-D", dir+"/data", "-U", User, "--auth=trust", "--no-sync", "--encoding=UTF8").CombinedOutput()
	require.NoError(t, err, "%s", out)
	server := command("postgres", "-D", dir+"/data", "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	p := tracetest.Command(t, server)
	t.Cleanup(func() {
		require.NoError(t, server.Process.Signal(syscall.SIGINT)) // it ends the connections
		require.NoError(t, p.Wait(testenv.Patience))
	})
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(20 * time.Millisecond) {
		out, err := command("createdb", "-h", dir, "-U", User, User).CombinedOutput()
		if err == nil {
			return &Server{p, dir, bin}
		}
		var status *exec.ExitError
		if !errors.As(err, &status) || time.Now().After(deadline) {
			t.Fatalf("PostgreSQL has not started: %v: %s\n%s", err, out, p.Dump())
		}
	}
}

// DSN is how drivers connect to the server.
func (s *Server) DSN() string {
	return fmt.Sprintf("host=%s user=%s dbname=%s sslmode=disable", s.Socket, User, User)
}

// Query runs queries in a session of its own, which the server forks a process for.
func (s *Server) Query(t testing.TB, queries ...string) {
	t.Helper()
	args := []string{"-h", s.Socket, "-U", User, "-d", User, "-q", "-X"}
	for _, q := range queries {
		args = append(args, "-c", q)
	}
	out, err := exec.Command(filepath.Join(s.bin, "psql"), args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// programs returns the directory of the server's programs, which Debian does not have in
// $PATH because there may be several versions. It takes the last, which has probes, or those
// in $PATH.
func programs(t testing.TB) string {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	path, err := filepath.EvalSymlinks(testenv.NeedsTool(t, "initdb", "postgresql"))
	require.NoError(t, err)
	return filepath.Dir(path)
}

// owner returns the user that the server runs as: the user nobody in place of root, which must not run it.
func owner() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534}
}
