package query

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/assert"
)

// TestSplitExprs: a comma ends an expression only outside of quotes and parentheses.
func TestSplitExprs(t *testing.T) {
	for _, c := range []struct {
		list string
		want []string
	}{
		{"status", []string{"status"}},
		{`strings.HasPrefix(path, "a,b"), elapsed/1.5ms,1µs`, []string{`strings.HasPrefix(path, "a,b")`, "elapsed/1.5ms", "1µs"}},
	} {
		got, err := SplitExprs([]string{c.list})
		assert.NoError(t, err, c.list)
		assert.Equal(t, c.want, got, c.list)
	}
	for list, place := range map[string]int{"": 0, "a,,b": 2, "a)+(b": 1, "a, b ==": 7, "x, (b": 5, "a\nb": 1} {
		_, err := SplitExprs([]string{list})
		var wrong *expr.Error
		if assert.ErrorAs(t, err, &wrong) {
			assert.Equal(t, list, wrong.Src)
			assert.Equal(t, place, wrong.Pos)
		}
	}
	want := []string{"elapsed > 1ms", `path != "&&"`, "(a || b && c)"}
	assert.Equal(t, want, SplitWhere(`elapsed > 1ms && path != "&&" && (a || b && c)`))
}
