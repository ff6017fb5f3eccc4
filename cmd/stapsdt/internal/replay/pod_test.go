//go:build linux

package replay

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPodVariables: expressions have the names of the pod, which are empty where it is unknown.
func TestPodVariables(t *testing.T) {
	p := &recording.Probe{Provider: "shop", Name: "done"}
	v := NewEvaluator(p)
	e, err := v.ParseFilter(`namespace == "shop" && pod == "web-0" && container == "app"`)
	require.NoError(t, err)
	none, err := v.ParseFilter(`namespace == "" && len(pod) == 0 && container == ""`)
	require.NoError(t, err)
	for _, pod := range []*recording.Pod{nil, {Namespace: "shop", Name: "web-0", Container: "app"}} {
		v.At(&recording.Event{Probe: p, Pod: pod})
		match, fault := v.Bool(e)
		assert.False(t, fault)
		assert.Equal(t, pod != nil, match)
		match, _ = v.Bool(none)
		assert.Equal(t, pod == nil, match)
	}
}
