//go:build linux

package stack

import (
	"encoding/json"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/symbol"

	"github.com/stretchr/testify/assert"
)

func TestStackJSON(t *testing.T) {
	stack := &symbol.Stack{Cut: symbol.CutDepth, Frames: []symbol.Frame{
		{Functions: []symbol.Function{{Name: "main.inlined", File: "/a/main.go", Line: 3}, {Name: "main.f", File: "/a/main.go", Line: 9}}},
		{Address: 0x123},
	}}
	const want = `{"stack":[{"function":"main.inlined","file":"/a/main.go","line":3},{"function":"main.f","file":"/a/main.go","line":9},{"function":"0x123"}],"cut":"cut: too deep"}`
	got, err := json.Marshal(newJSONStack(stack))
	assert.NoError(t, err)
	assert.Equal(t, want, string(got))
}
