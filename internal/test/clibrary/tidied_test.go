//go:build linux && (amd64 || arm64)

package clibrary

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestTidied: systemd-tmpfiles leaves the socket and the recording of a program that runs. The tests in C check the
// bit of an image in a file.
func TestTidied(t *testing.T) {
	program := build(t) + "/app"
	tracetest.EachService(t, func(t *testing.T, s *tracetest.Service) {
		cmd := exec.Command(program, "values")
		file := s.Dir + "/stapsdt/capp.rec"
		cmd.Env = append(os.Environ(), "STAPSDT_DIR="+s.Dir+"/stapsdt", "STAPSDT_SOCKET=1", "STAPSDT_RECORD="+file+",1M")
		p := tracetest.Command(t, s.Command(cmd))
		require.Equal(t, "1", p.Expect("ready ", testenv.Patience))
		s.Clean(t)
		require.Len(t, tracetest.Must(filepath.Glob(s.Outside+"/stapsdt/*"))(t), 2)
		pid := strconv.Itoa(p.PID())
		list := stapsdt(t, "list", "-p", pid)
		require.Contains(t, list, "  can be watched without root: process "+pid+"\n")
		require.Contains(t, list, "  recorded in "+file+" by process "+pid+"\n")
	})
}
