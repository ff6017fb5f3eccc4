//go:build linux

package stack

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/symbol"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestFormats: there is a way to write each format, and none for another word.
func TestFormats(t *testing.T) {
	all := map[string]bool{}
	for _, format := range Formats {
		var out bytes.Buffer
		one := []row{{&count.Row[count.Probe]{Count: 2}, &symbol.Stack{Frames: []symbol.Frame{{Address: 0x123}}}}}
		stacks := table{Options: &Options{Format: format}, rows: one}
		require.NoError(t, stacks.write(&out), format)
		require.NotZero(t, out.Len(), format)
		all[out.String()] = true
	}
	require.Len(t, all, len(Formats), "each is another text")
	require.Panics(t, func() { _ = (&table{Options: &Options{Format: "xml"}}).write(io.Discard) })
}
