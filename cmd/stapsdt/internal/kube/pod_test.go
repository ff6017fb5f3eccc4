//go:build unix

package kube

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestChoose: the container is the one that is named, the one that the pod's maker has named, or the first one.
func TestChoose(t *testing.T) {
	const two = `{"metadata": {"name": "p", "namespace": "n"%s}, "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
		"status": {"containerStatuses": [{"name": "a", "state": {"running": {}}}, {"name": "b", "containerID": "cri-o://12", "state": {"running": {}}}],
			"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}}`
	for _, test := range []struct{ annotation, name, want, note, err string }{
		{name: "b", want: "b"},
		{want: "a", note: "selected the container a of a, b: use -c NAME to select another"},
		{annotation: `, "annotations": {"kubectl.kubernetes.io/default-container": "b"}`, want: "b"},
		{name: "c", err: "the pod n/p has no container c, but a, b, i: not found"},
		{name: "i", err: "the container i of the pod n/p is not running: it has ended with status 0 (Completed)"},
	} {
		p := &pod{}
		require.NoError(t, json.Unmarshal([]byte(fmt.Sprintf(two, test.annotation)), p))
		s, err := p.choose(test.name)
		if test.err != "" {
			assert.EqualError(t, err, test.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, test.want, s.container.Name)
		assert.Equal(t, test.note, s.note)
		if test.want == "b" {
			assert.Equal(t, "12", s.id())
		}
	}
}

// TestName: A/B is a container B of a pod A of the current namespace, or else a pod B of a namespace A.
func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"shop": "in default shop", "shop/app": "in default shop", "default/shop": "in default shop", "default/shop/app": "in default shop",
		"other/shop": "stapsdt: no pod shop in namespace other, and no container shop in pod other of the current namespace",
		"shop/other": "stapsdt: no pod other in namespace shop, and no container other in pod shop of the current namespace",
	} {
		r := newRun(t, testCluster(), "list", "-p", name)
		if status := r.wait(); want != "in default shop" {
			assert.Equal(t, exitNothing, status, name)
			assert.Contains(t, r.err.String(), want, name)
			continue
		}
		assert.Equal(t, "list --\n", r.out.String(), "%s: %s", name, &r.err)
	}
}

// TestLimit: a pod has a limit if each of its containers has one.
func TestLimit(t *testing.T) {
	p := &pod{}
	require.NoError(t, json.Unmarshal([]byte(`{"spec": {"containers": [{"resources": {"limits": {"memory": "64Mi"}}}, {"resources": {"limits": {"memory": "1e6"}}}]}}`), p))
	assert.EqualValues(t, 64<<20+1e6, p.limit())
	p.Spec.Containers = append(p.Spec.Containers, container{})
	assert.Zero(t, p.limit())
	require.NoError(t, json.Unmarshal([]byte(`{"spec": {"resources": {"limits": {"memory": "32Mi"}}}}`), p))
	assert.EqualValues(t, 32<<20, p.limit(), "the pod's own")
}

// TestQuantity: quantities as Kubernetes has them.
func TestQuantity(t *testing.T) {
	for text, want := range map[string]int64{"128Mi": 128 << 20, "1Gi": 1 << 30, "64M": 64e6, "1000": 1000, "1.5Ki": 1536, "128974848000m": 128974848, "": 0, "many": 0, "-1": 0} {
		assert.Equal(t, want, quantity(text), text)
	}
}
