//go:build linux

package kubernetes

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// What scripts/kubernetes.sh gives. It also sets $KUBECONFIG and $STAPSDT_IMAGE, and $PATH has
// kubectl and its plugin stapsdt.
var (
	directory = flag.String("cluster", "", "the `directory` of the cluster and of the command")
	version   = flag.String("version", "", "the `tag` of the image of the command")
	crd       = flag.String("crd", "", "the `file` that defines PodMonitors")
)

// packaging has the manifests.
const packaging = "../../../packaging/kubernetes"

func TestMain(m *testing.M) {
	tracetest.ParallelMain(4) // those that are parallel wait most of the time
	if *directory == "" && flag.Lookup("test.list").Value.String() == "" {
		fmt.Println("no tests: scripts/kubernetes.sh runs them, on the cluster that it starts")
		return
	}
	if *directory != "" {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// prepare makes the namespace work, which is restricted, and copies the manifests, which a
// kustomization names by a relative path.
func prepare() error {
	namespace, err := testdata.ReadFile("testdata/namespace.yaml")
	if err != nil {
		return err
	}
	if _, err := runKubectl(string(namespace), "apply", "-f", "-"); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(*directory, "base"), os.DirFS(packaging))
}

// await waits until a check returns nil.
func await(t testing.TB, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(300 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", testenv.Patience, err)
		}
	}
}
