//go:build linux

package kubernetes

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
)

// runKubectl runs kubectl with an input, and returns its output.
func runKubectl(input string, args ...string) (string, error) {
	cmd := exec.Command("kubectl", args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

// words returns the words of a formatted command line. None of them has a space.
func words(format string, args ...any) []string {
	return strings.Fields(fmt.Sprintf(format, args...))
}

// kubectl runs kubectl, with the words of a command line, as an administrator, and returns its
// output.
func kubectl(t testing.TB, format string, args ...any) string {
	t.Helper()
	out, err := runKubectl("", words(format, args...)...)
	require.NoError(t, err)
	return out
}

//go:embed testdata
var testdata embed.FS

// manifests are templates of manifests, by the names of their files.
var manifests = template.Must(template.New("").
	Funcs(template.FuncMap{"json": toJSON}).
	ParseFS(testdata, "testdata/*.yaml"))

func toJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// manifest returns a manifest of a template and its data.
func manifest(t testing.TB, name string, data any) string {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, manifests.ExecuteTemplate(&text, name+".yaml", data))
	return text.String()
}

// apply makes the objects of a manifest, which stay.
func apply(t testing.TB, name string, data any) {
	t.Helper()
	_, err := runKubectl(manifest(t, name, data), "apply", "-f", "-")
	require.NoError(t, err)
}

// start makes the objects of a manifest, which are deleted when the test is over.
func start(t testing.TB, name string, data any) {
	t.Helper()
	text := manifest(t, name, data)
	t.Cleanup(func() {
		_, err := runKubectl(text, "delete", "--ignore-not-found", "--grace-period=1", "-f", "-")
		require.NoError(t, err)
	})
	_, err := runKubectl(text, "apply", "-f", "-")
	require.NoError(t, err)
}

// nodes returns the names of the nodes.
func nodes(t testing.TB) []string {
	t.Helper()
	return strings.Fields(kubectl(t, "get nodes -o jsonpath={.items[*].metadata.name}"))
}

// developer returns the kubeconfig of a user who has the role edit of a namespace, and the right of
// packaging/kubernetes/debug-role.yaml, and no other right.
func developer(t testing.TB, namespace string) string {
	t.Helper()
	kubectl(t, "apply -f %s/debug-role.yaml", packaging)
	apply(t, "developer", namespace)
	token := strings.TrimSpace(kubectl(t, "-n work create token developer"))
	admin, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	require.NoError(t, err)
	own := fmt.Appendf(nil, "token: %q", token)
	config := regexp.MustCompile(`token: "[^"]*"`).ReplaceAllLiteral(admin, own)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, config, 0o600))
	may := func(namespace, verb, subresource string) error {
		const line = "--kubeconfig %s -n %s auth can-i %s pods --subresource=%s"
		_, err := runKubectl("", words(line, file, namespace, verb, subresource)...)
		return err
	}
	await(t, func() error { return may(namespace, "patch", "ephemeralcontainers") })
	require.Error(t, may("stapsdt", "create", "exec"))
	return file
}

// pidOf returns the PID of the process whose command line matches a pattern. The PID namespaces of
// all nodes are below that of the tests.
func pidOf(t testing.TB, pattern string) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-f", pattern).Output()
	require.NoError(t, err, pattern)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err, pattern)
	return pid
}
