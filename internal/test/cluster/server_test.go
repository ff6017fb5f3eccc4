//go:build linux && (amd64 || arm64)

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// server answers kubectl, and is the kubelet of the pods.
type server struct {
	t         *testing.T
	directory string // has kubectl, the plugin and the socket
	listener  *net.UnixListener
	answering sync.WaitGroup

	mu      sync.Mutex
	pods    []*localPod
	calls   []string
	refused string // the verb of kubectl that the user may not use, as far as the API server is concerned
}

// newServer starts a server without pods.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, directory: t.TempDir()}
	require.NoError(t, install(s.directory, tracetest.Stapsdt(t)))
	var err error
	s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.socket(), Net: "unix"})
	require.NoError(t, err)
	// This runs when the pods have ended, and with them what kubectl runs there.
	t.Cleanup(func() {
		s.listener.Close()
		s.answering.Wait()
	})
	s.answering.Go(func() {
		for {
			c, err := s.listener.AcceptUnix()
			if err != nil {
				return
			}
			s.answering.Go(func() { s.answer(c) })
		}
	})
	return s
}

func (s *server) socket() string { return filepath.Join(s.directory, "api") }

// answer answers a call of kubectl.
func (s *server) answer(c *net.UnixConn) {
	defer c.Close()
	got, err := receiveCall(c)
	if err != nil {
		s.t.Errorf("kubectl: %v", err)
		return
	}
	defer got.close()
	_ = json.NewEncoder(c).Encode(s.obey(got))
}

// obey does what a call says, and returns its exit status.
func (s *server) obey(c *call) (status int) {
	s.mu.Lock()
	s.calls = append(s.calls, strings.Join(c.Args, " "))
	refused := s.refused
	s.mu.Unlock()
	l, err := c.parse()
	if err != nil {
		return c.fail("%v", err)
	}
	switch verb := c.Args[0]; verb {
	case "auth":
		if refused == "exec" {
			_, _ = fmt.Fprintln(c.files[1], "no")
			return 1
		}
		_, _ = fmt.Fprintln(c.files[1], "yes")
		return 0
	case "get":
		return s.get(c, l)
	case refused:
		return c.fail(`Error from server (Forbidden): pods %q is forbidden: User "developer" cannot %s in the namespace "work"`,
			l.words[0], rights[verb])
	case "debug":
		return s.debug(c, l)
	default:
		return s.exec(c, l)
	}
}

// rights are those that a verb takes, in the words of the API server.
var rights = map[string]string{
	"debug": `patch resource "pods/ephemeralcontainers" in API group ""`,
	"exec":  `create resource "pods/exec" in API group ""`,
}

// called returns the calls of a verb until now.
func (s *server) called(verb string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(c string) bool { return !strings.HasPrefix(c, verb+" ") })
}

func (s *server) find(l *line, name string) (*localPod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if namespace, ok := l.flags["namespace"]; p.object.Metadata.Name == name && (!ok || namespace == p.object.Metadata.Namespace) {
			return p, nil
		}
	}
	return nil, fmt.Errorf("Error from server (NotFound): pods %q not found", name)
}

// get shows a pod, or the pods of the node agent, of which there are none.
func (s *server) get(c *call, l *line) int {
	switch {
	case l.flags["output"] != "json":
		return c.fail("error: the stand-in has only the output json")
	case l.words[0] == "pods" && len(l.words) == 1 && l.flags["namespace"] == "stapsdt":
		return c.print(map[string]any{"items": []pod{}})
	case l.words[0] != "pod" || len(l.words) != 2:
		return c.fail("error: the stand-in does not have %q", l.words)
	}
	p, err := s.find(l, l.words[1])
	if err != nil {
		return c.fail("%v", err)
	}
	return c.print(p.tell())
}

// debug adds an ephemeral container.
func (s *server) debug(c *call, l *line) int {
	p, err := s.find(l, l.words[0])
	if err != nil {
		return c.fail("%v", err)
	}
	e := ephemeralContainer{TargetContainerName: l.flags["target"]}
	e.Name, e.Image, e.Command = l.flags["container"], l.flags["image"], l.command
	var custom struct {
		SecurityContext securityContext `json:"securityContext"`
		VolumeMounts    []volumeMount   `json:"volumeMounts"`
	}
	b, err := os.ReadFile(l.flags["custom"])
	if err == nil {
		err = json.Unmarshal(b, &custom)
	}
	e.VolumeMounts = custom.VolumeMounts
	switch own := custom.SecurityContext; {
	case err != nil:
		return c.fail("error: --custom: %v", err)
	case l.flags["profile"] != "restricted" || own.AllowPrivilegeEscalation == nil || *own.AllowPrivilegeEscalation:
		return c.fail(`Error from server (Forbidden): pods %q is forbidden: violates PodSecurity "restricted:latest"`, l.words[0])
	case own.RunAsUser != user || own.RunAsGroup != user:
		return c.fail("error: the stand-in has only the user %d", user)
	}
	if err := p.add(&e); err != nil {
		return c.fail("%v", err)
	}
	return 0
}

// exec runs a command in an ephemeral container. The image of the program has no commands.
func (s *server) exec(c *call, l *line) int {
	p, err := s.find(l, l.words[0])
	if err != nil {
		return c.fail("%v", err)
	}
	in := p.running(l.flags["container"])
	if in == nil {
		return c.fail("error: unable to upgrade connection: container not found (%q)", l.flags["container"])
	}
	cmd := in.command(l.command)
	if _, ok := l.flags["stdin"]; ok {
		cmd.Stdin = c.files[0]
	}
	cmd.Stdout, cmd.Stderr = c.files[1], c.files[2]
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return c.fail("error: Internal error occurred: %v", err)
	}
	status := exitStatus(exit)
	c.fail("command terminated with exit code %d", status)
	return status
}

// exitStatus returns the exit status that a runtime tells of a process.
func exitStatus(exit *exec.ExitError) int {
	if how := exit.Sys().(syscall.WaitStatus); how.Signaled() {
		return 128 + int(how.Signal())
	}
	return exit.ExitCode()
}
