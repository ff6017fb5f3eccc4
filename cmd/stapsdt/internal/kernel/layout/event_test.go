//go:build linux && (amd64 || arm64)

package layout

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSetText: a string that was missing is as if the kernel had written it, and other items stay.
func TestSetText(t *testing.T) {
	const most = 10
	size := TextHeader + (most+2+7)&^7
	text := value.Item{Name: "executable", Type: expr.Type{Kind: expr.String}, Offset: EventHeader, Size: size, TextSize: most}
	other := text
	other.Offset += size
	items := []value.Item{text, other}
	for set, want := range map[string]string{"": "", "shop": "shop", strings.Repeat("x", most): strings.Repeat("x", most), strings.Repeat("y", most+1): strings.Repeat("y", most), strings.Repeat("z", 99): strings.Repeat("z", most)} {
		e := Event{Raw: make([]byte, EventHeader+2*size)}
		for i := range e.Raw[EventHeader:] {
			e.Raw[EventHeader+i] = 0xAA
		}
		binary.NativeEndian.PutUint64(e.Raw[EventMissing:], 0b11)
		require.True(t, e.Value(items, 0).Missing)
		e.SetText(items, 0, set)
		got := e.Value(items, 0)
		assert.Equal(t, value.Value{Type: text.Type, Bits: 1, Text: []byte(want), Cut: len(set) > most}, got)
		assert.True(t, e.Value(items, 1).Missing)
		assert.NotContains(t, string(e.Raw[EventHeader+size:]), "y")
	}
}
