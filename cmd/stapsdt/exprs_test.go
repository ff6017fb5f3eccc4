//go:build linux

package main

import (
	"slices"
	"testing"
)

func TestSplitExprs(t *testing.T) {
	for _, c := range []struct {
		list string
		want []string
	}{
		{"status", []string{"status"}},
		{`strings.HasPrefix(path, "a,b"), elapsed/1.5ms,1µs`, []string{`strings.HasPrefix(path, "a,b")`, "elapsed/1.5ms", "1µs"}},
		{"a,,b", []string{"a,,b"}},
	} {
		if got := splitExprs([]string{c.list}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", c.list, got)
		}
	}
	want := []string{"elapsed > 1ms", `path != "&&"`, "(a || b && c)"}
	if got := splitWhere(`elapsed > 1ms && path != "&&" && (a || b && c)`); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
