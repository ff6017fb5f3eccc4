//go:build linux

package bpf

import (
	"errors"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/expr"
)

func TestSplitExprs(t *testing.T) {
	for _, c := range []struct {
		list string
		want []string
	}{
		{"status", []string{"status"}},
		{`strings.HasPrefix(path, "a,b"), elapsed/1.5ms,1µs`, []string{`strings.HasPrefix(path, "a,b")`, "elapsed/1.5ms", "1µs"}},
	} {
		if got, err := SplitExprs([]string{c.list}); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", c.list, got, err)
		}
	}
	for list, place := range map[string]int{"": 0, "a,,b": 2, "a)+(b": 1, "a, b ==": 7, "x, (b": 5, "a\nb": 1} {
		_, err := SplitExprs([]string{list})
		var wrong *expr.Error
		if !errors.As(err, &wrong) || wrong.Src != list || wrong.Pos != place {
			t.Errorf("%q: %v", list, err)
		}
	}
	want := []string{"elapsed > 1ms", `path != "&&"`, "(a || b && c)"}
	if got := SplitWhere(`elapsed > 1ms && path != "&&" && (a || b && c)`); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
