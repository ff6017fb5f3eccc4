package expr

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestUsedNames: functions, units and durations are no names, and the parts of values are.
func TestUsedNames(t *testing.T) {
	for src, want := range map[string][]string{
		"1":                          nil,
		"elapsed > 1ms":              {"elapsed"},
		"a && a.b[1].c || !b":        {"a", "a.b[1].c", "b"},
		"str( start.path ) == \"x\"": {"str(start.path)"},
		"strings.HasPrefix(path, \"a,b\") && len(path) > n": {"n", "path"},
		"1.5s + time.Second*x":                              {"x"},
		"a +":                                               nil,
	} {
		assert.Equal(t, want, Names(src), src)
	}
	assert.Equal(t, []string{"a", "b"}, Names("b", "a+b"))
}
