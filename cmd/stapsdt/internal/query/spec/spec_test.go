package spec

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParse: a specification has a file, a provider and a probe, and only the file may
// contain colons.
func TestParse(t *testing.T) {
	for text, want := range map[string]Spec{
		"a:b":              {Provider: "a", Probe: "b"},
		"/bin/x:a:b":       {File: "/bin/x", Provider: "a", Probe: "b"},
		"/odd:name/x:a:b*": {File: "/odd:name/x", Provider: "a", Probe: "b*"},
		"*:*":              {Provider: "*", Probe: "*"},
	} {
		got, err := Parse(text)
		want.text = text
		assert.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
	}
	for text, want := range map[string]Spec{
		"go:main.f":            {Probe: "main.f", Pattern: "main.f"},
		"go:main.f:return":     {Probe: "main.f:return", Pattern: "main.f", Returns: true},
		"./a:go:*.v3.*":        {File: "./a", Probe: "*.v3.*", Pattern: "*.v3.*"},
		"/a:b:go:yaml%2ev3.f":  {File: "/a:b", Probe: "yaml%2ev3.f", Pattern: "yaml.v3.f"},
		"go:go:main.f:return":  {File: "go", Probe: "main.f:return", Pattern: "main.f", Returns: true},
		"bin/x:go:(*t).return": {File: "bin/x", Probe: "(*t).return", Pattern: "(*t).return"},
	} {
		got, err := Parse(text)
		want.text, want.Provider, want.Functions = text, FunctionProvider, true
		assert.NoError(t, err)
		assert.Equal(t, want, got)
	}
	// A provider of this name needs a pattern.
	got, err := Parse("/bin/x:[g]o:b")
	assert.NoError(t, err)
	assert.Equal(t, Spec{File: "/bin/x", Provider: "[g]o", Probe: "b", text: "/bin/x:[g]o:b"}, got)
	for _, text := range []string{"go:", "x:go:", ":go:x", "go::return", "go:return"} {
		got, err := Parse(text)
		assert.Error(t, err, "%q: %+v", text, got)
	}
	for _, text := range []string{"", "a", "a:", ":b", "::b", ":a:b", "a:[b", "[:b", "x:a:"} {
		got, err := Parse(text)
		assert.Error(t, err, "%q: %+v", text, got)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		spec, provider, probe string
		want                  bool
	}{
		{"a:b", "a", "b", true},
		{"a:b", "a", "bb", false},
		{"*:b*", "anything", "b__start", true},
		{"?:[a-c]", "x", "b", true},
		{"?:[a-c]", "x", "d", false},
		{"*:*", "with/slash", "a/b", true},
		{"with/*:a", "with/slash", "a", true},
	} {
		s, err := Parse(c.spec)
		assert.NoError(t, err, c)
		assert.Equal(t, c.want, s.Match(c.provider, c.probe), c)
	}
}

// TestIsAddress: an address has the scheme of a page.
func TestIsAddress(t *testing.T) {
	for word, want := range map[string]bool{"http://": true, "https://h": true, "http:x": false, "file:p:x": false, "": false} {
		require.Equal(t, want, IsAddress(word), word)
	}
}
