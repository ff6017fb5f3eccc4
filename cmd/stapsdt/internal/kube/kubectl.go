//go:build unix

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

var (
	// errNotFound means that the cluster does not have the object.
	errNotFound = errors.New("not found")
	// errForbidden means that the user lacks a right, or that a policy forbids the operation.
	errForbidden = errors.New("forbidden")
	// errPod means that the command in a pod has printed the error, and errPodUsage that its
	// command line is invalid.
	errPod      = errors.New("the command in the pod has failed")
	errPodUsage = fmt.Errorf("%w", errPod)
)

// kubectl runs kubectl, with the user's rights.
type kubectl struct {
	path  string
	flags []string // the flags that select the cluster and the user
}

func newKubectl(flags []string) (*kubectl, error) {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, errors.New("kubectl is not in $PATH")
	}
	return &kubectl{path, flags}, nil
}

// requestTimeout is the time that the API server may take to answer.
const requestTimeout = 20 * time.Second

// run runs a short command, and returns its output, also if it fails.
func (k *kubectl) run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	words := append([]string{args[0], fmt.Sprintf("--request-timeout=%v", requestTimeout)}, k.flags...)
	c := exec.CommandContext(ctx, k.path, append(words, args[1:]...)...)
	c.Env = append(os.Environ(), "KUBECTL_DEBUG_CUSTOM_PROFILE=true") // for kubectl 1.30
	var out, problem bytes.Buffer
	c.Stdout, c.Stderr = &out, &problem
	c.WaitDelay = time.Second
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("kubectl %s: %w", args[0], context.Cause(ctx))
		}
		return out.Bytes(), kubectlError(problem.String(), err)
	}
	return out.Bytes(), nil
}

func (k *kubectl) get(ctx context.Context, into any, args ...string) error {
	out, err := k.run(ctx, append(append([]string{"get"}, args...), "--output=json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("kubectl get: %w", err)
	}
	return nil
}

// klogLine matches a line of kubectl's log, such as "E1128 05:06:07.123456 17 memcache.go:265]
// ...".
var klogLine = lazyregexp.New(`^[EWIF]\d{4} \d\d:\d\d:`)

// kubectlError returns the error that was printed by kubectl or by the command that it has run in a
// pod.
func kubectlError(printed string, err error) error {
	var said []string
	for line := range strings.Lines(printed) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Warning:") {
			said = append(said, line)
		}
	}
	// kubectl logs each attempt to reach the server, and then states the error.
	if last := len(said) - 1; last > 0 && !klogLine().MatchString(said[last]) {
		said = slices.DeleteFunc(said, klogLine().MatchString)
	}
	if len(said) == 0 {
		return fmt.Errorf("kubectl: %w", err)
	}
	text := strings.Join(said, " ")
	switch own, isOwn := strings.CutPrefix(said[0], "stapsdt: "); {
	case isOwn && strings.Contains(text, terminatedUsage):
		return &clusterError{errPodUsage, own}
	case isOwn:
		return &clusterError{errPod, own}
	case strings.Contains(text, "(Forbidden)"), strings.Contains(text, "is forbidden:"), strings.Contains(text, "(Unauthorized)"):
		return &clusterError{errForbidden, "kubectl: " + strip(text)}
	case strings.Contains(text, "(NotFound)"):
		return &clusterError{errNotFound, "kubectl: " + strip(text)}
	}
	return &clusterError{err, "kubectl: " + strip(text)}
}

// strip removes the prefix that kubectl adds to an error.
func strip(text string) string {
	for _, prefix := range []string{"error: ", "Error from server (Forbidden): ", "Error from server (NotFound): "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}

// clusterError is an error of the cluster, or of a command in it, with a message for people.
type clusterError struct {
	cause error
	text  string
}

func (e *clusterError) Error() string { return e.text }

// Unwrap returns errForbidden, errNotFound, errPod, errPodUsage, or the exit error of kubectl.
func (e *clusterError) Unwrap() error { return e.cause }

// terminatedUsage is kubectl's message for a command that ends because its command line is invalid.
const terminatedUsage = "command terminated with exit code 2"

// forbidden returns an errForbidden with a message about the missing right.
func forbidden(format string, args ...any) error {
	return &clusterError{errForbidden, fmt.Sprintf(format, args...)}
}
