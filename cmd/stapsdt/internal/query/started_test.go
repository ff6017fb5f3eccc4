package query

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLacking: a name that both have is the end's, and an argument that is called elapsed keeps its
// name.
func TestLacking(t *testing.T) {
	has := func(all ...string) func(string) bool {
		return func(name string) bool { return slices.Contains(all, name) }
	}
	start := has("id", "path", "elapsed")
	names := []string{"elapsed", "id", "path", "start.id", "start.path", "start.status", "status", "unknown"}
	assert.Equal(t, []string{"elapsed", "path", "start.id", "start.path"}, Lacking(names, has("id", "status"), start))
	assert.Equal(t, []string{"path", "start.id", "start.path"}, Lacking(names, has("id", "elapsed"), start))
	assert.Equal(t, []string{"elapsed", "str(start.path)"}, Lacking([]string{"elapsed", "str(start.path)"}, has(), has("str(path)")))
	assert.Empty(t, Lacking([]string{"id", "status"}, has("id", "status"), start))
	assert.Empty(t, Lacking([]string{"id", "path"}, has("id"), start), "neither elapsed nor start. is named")
}
