package spec

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLines: a number behind a file or a function of a Go program is a line.
func TestLines(t *testing.T) {
	for text, want := range map[string]Spec{
		"go:cart.go:120":               {Probe: "cart.go:120", Pattern: "cart.go", Lines: Lines{120, 120}},
		"go:shop/cart.go:7-12":         {Probe: "shop/cart.go:7-12", Pattern: "shop/cart.go", Lines: Lines{7, 12}},
		"go:main.(*Cart).Add:0120":     {Probe: "main.(*Cart).Add:120", Pattern: "main.(*Cart).Add", Lines: Lines{120, 120}},
		"./shop:go:cart.go:1":          {File: "./shop", Probe: "cart.go:1", Pattern: "cart.go", Lines: Lines{1, 1}},
		"/a:b/shop:go:cart.go:1":       {File: "/a:b/shop", Probe: "cart.go:1", Pattern: "cart.go", Lines: Lines{1, 1}},
		"go:gopkg.in/yaml%2ev3.Load:3": {Probe: "gopkg.in/yaml.v3.Load:3", Pattern: "gopkg.in/yaml.v3.Load", Lines: Lines{3, 3}},
	} {
		want.Provider, want.Functions, want.text = "go", true, text
		if text == "go:gopkg.in/yaml%2ev3.Load:3" {
			want.Probe = "gopkg.in/yaml%2ev3.Load:3"
		}
		got, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got)
		assert.True(t, got.Match("go", want.Probe))
		assert.False(t, got.Match("go", string(want.Pattern)))
		assert.False(t, got.Match("other", want.Probe))
	}
	for text, want := range map[string]string{
		"go:cart.go":                      "names a file of the source: add a line, as in 'go:cart.go:1'",
		"go:cart.go:0":                    "there are no such lines",
		"go:cart.go:9-8":                  "there are no such lines",
		"go:cart.go:99999999999999999999": "there are no such lines",
		"go:cart.go:3:return":             "lines have no returns: leave out :return",
		"go:main.*:3":                     "lines are those of one file or function",
		":go:cart.go:3":                   "has an empty FILE",
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
	_, err := ParseChoices([]string{"go:cart.go:1-2"})
	assert.ErrorContains(t, err, "has several lines, which only list takes")
	for text, isLine := range map[string]bool{"web:cart.go:20": false, "go:20": false, "go:main.f": false, "go:main.f:20": true} {
		got, err := Parse(text)
		require.NoError(t, err)
		assert.Equal(t, isLine, !got.Lines.IsZero(), text)
	}
}

// TestIsSourceOf: a file is named by its path, or the end of it.
func TestIsSourceOf(t *testing.T) {
	for path, want := range map[string]bool{
		"/src/shop/cart.go": true, "shop/cart.go": true, "cart.go": false, "/src/myshop/cart.go": false, "/src/shop/cart.go.go": false, "": false,
	} {
		assert.Equal(t, want, Pattern("shop/cart.go").IsSourceOf(path), path)
	}
}
