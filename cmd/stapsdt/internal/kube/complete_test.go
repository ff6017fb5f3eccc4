//go:build unix

package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestComplete: the verbs and the flags are completed without the cluster, and so is the version printed. The target is a
// pod, or a workload if its type is there.
func TestComplete(t *testing.T) {
	for words, want := range map[string]string{
		"__complete li": "list\t", "__complete count --su": "--sum\t", "version": "kubectl stapsdt version ",
		"__complete count ": "shop\n", "__complete count -n other ": "web\n", "__complete top deploy/": "deploy/web\n",
		"__complete top sts/": ":4\n", "__complete count shop ": ":4\n", "__complete count -p ": "shop\n",
	} {
		c := testCluster()
		c.Pods = append(c.Pods[:1:1], pod{Metadata: metadata{Namespace: "other", Name: "web"}})
		c.Objects = []object{{Kind: "Deployment", Metadata: metadata{Namespace: "default", Name: "web"}}}
		r := newRun(t, c, strings.Split(words, " ")...)
		assert.Zero(t, r.wait(), "%s", &r.err)
		assert.True(t, strings.HasPrefix(r.out.String(), want), "%q", r.out.String())
	}
}
