//go:build linux

package tracetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// Service is where a program runs as a service of systemd, whose temporary files are cleaned by age.
type Service struct {
	// Dir is a directory for temporary files as the service sees it, and Outside is its path for all others.
	Dir, Outside string

	tmp  string   // the directory that is cleaned
	wrap []string // the words before a command
}

// EachService calls a test with services in the namespaces of the test, with a network of their own, and with a /tmp of their
// own, as PrivateNetwork= and PrivateTmp= set up.
func EachService(t *testing.T, test func(t *testing.T, s *Service)) {
	testenv.NeedsRoot(t)
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	testenv.NeedsTool(t, "systemd-tmpfiles", "systemd")
	for _, name := range []string{"shared", "network", "tmp"} {
		t.Run(name, func(t *testing.T) {
			s := &Service{tmp: t.TempDir()}
			s.Outside = filepath.Join(s.tmp, "private")
			s.Dir = s.Outside
			require.NoError(t, os.Mkdir(s.Outside, 0o755))
			switch name {
			case "network":
				s.wrap = []string{unshare, "--net"}
			case "tmp":
				s.Dir = t.TempDir()
				s.wrap = []string{unshare, "--mount", "sh", "-ec", `mount --bind "$1" "$2"; shift 2; exec "$@"`, "sh", s.Outside, s.Dir}
			}
			test(t, s)
		})
	}
}

// Command returns a command that runs as the service.
func (s *Service) Command(cmd *exec.Cmd) *exec.Cmd {
	if len(s.wrap) == 0 {
		return cmd
	}
	wrapped := exec.Command(s.wrap[0], slices.Concat(s.wrap[1:], cmd.Args)...)
	wrapped.Env = cmd.Env
	return wrapped
}

// Clean lets systemd-tmpfiles remove all that it takes for unused, at any age, which must include a file of no process.
func (s *Service) Clean(t *testing.T) {
	t.Helper()
	unused, config := filepath.Join(s.Outside, "unused"), filepath.Join(t.TempDir(), "tmpfiles.conf")
	require.NoError(t, os.WriteFile(unused, nil, 0o600))
	require.NoError(t, os.WriteFile(config, []byte("e "+s.tmp+" - - - 0\n"), 0o600))
	out, err := exec.Command("systemd-tmpfiles", "--clean", config).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoFileExists(t, unused)
}
