//go:build linux

package rules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFunctions: the keys of rules for functions reach their fields.
func TestFunctions(t *testing.T) {
	file := parsed(t, `
metrics:
  - {name: a_total, probe: "go:main.(*Server).handle", counter: 1, executable: shop}
  - {name: b_total, probe: "go:main.(*Server).*:return", counter: 1, where: failed, executable: shop}
  - {name: c_seconds, probe: "go:main.(*Server).handle", duration: true, executable: shop}
  - {name: d_seconds, probe: "go:main.*", duration: true, executable: shop-*}
  - {name: e_seconds, start: "go:main.begin", end: "go:main.end", key: goroutine, duration: true, executable: shop}
  - {name: f, probe: "shop:x", gauge: y}
`)
	assert.Equal(t, 0.01, file.Budget)
	assert.True(t, file.Functions())
	assert.False(t, parsed(t, everything).Functions())
	var got [][]string
	for _, m := range file.Metrics {
		calls, isCalls := m.Calls()
		assert.Equal(t, m.Name != "f", m.Functions(), m.Name)
		assert.Equal(t, m.Name == "c_seconds" || m.Name == "d_seconds", isCalls, m.Name)
		if isCalls {
			assert.Equal(t, m.Start, calls)
		}
		got = append(got, append([]string{m.Probe.String(), m.Start.String(), m.End.String(), strings.Join(m.Key, ", "), m.Help}, m.OpenLabels()...))
	}
	assert.Equal(t, [][]string{
		{"go:main.(*Server).handle", "", "", "", "Events of go:main.(*Server).handle."},
		{"go:main.(*Server).*:return", "", "", "", "Events of go:main.(*Server).*:return.", "function"},
		{"", "go:main.(*Server).handle", "go:main.(*Server).handle:return", "call", "Time of the calls of go:main.(*Server).handle, in seconds."},
		{"", "go:main.*", "go:main.*:return", "call", "Time of the calls of go:main.*, in seconds.", "function"},
		{"", "go:main.begin", "go:main.end", "goroutine", "Time from go:main.begin to go:main.end, in seconds."},
		{"shop:x", "", "", "", "Latest y of shop:x."},
	}, got)
}

// TestWrongFunctions: what is wrong with functions is said with its line and column.
func TestWrongFunctions(t *testing.T) {
	for text, want := range map[string]string{
		metric(`name: a_total, counter: 1, probe: "go:main.f"`):                                              `f:2:38: "go:main.f" selects functions: name the program with executable`,
		metric(`name: a_total, counter: 1, probe: "go:main.f", executable: "**"`):                            `f:2:38: "go:main.f" selects functions: name the program with executable`,
		metric(`name: a_seconds, duration: true, start: "go:main.f", end: "b:c", key: goroutine`):            `f:2:44: "go:main.f" selects functions: name the program with executable`,
		metric(`name: a_total, counter: 1, probe: "/bin/a:go:main.f", executable: a`):                        `f:2:38: "/bin/a:go:main.f" has a file: give go:FUNCTION, and the file's name as executable`,
		metric(`name: a_total, counter: 1, probe: "go::return", executable: a`):                              `f:2:38: "go::return" names no function: use go:PATTERN, such as 'go:main.*'`,
		metric(`name: a_seconds, duration: true, probe: "go:f", key: arg0, executable: a`):                   "f:2:57: a call is paired with its return: leave out key",
		metric(`name: a_seconds, duration: true, probe: "go:f:return", executable: a`):                       "f:2:44: a duration pairs calls with their returns: give go:f",
		metric(`name: a_seconds, duration: true, start: "go:f", end: "go:f:return", executable: a`):          "f:2:3: the start and the end are the calls and the returns of one function: give probe: go:f in their place",
		metric(`name: a, in_flight: true, start: "go:f", end: "b:c", key: goroutine, executable: a`):         "f:2:37: calls in flight cannot be counted, because calls that a panic unwinds do not return",
		metric(`name: a_seconds, duration: true, probe: "go:main.*", executable: a, by: [{function: arg0}]`): "f:2:78: the label function is set already, to the text that matches the pattern go:main.*",
		"spans: [{probe: 'go:main.f'}]":                       `f:1:17: "go:main.f" selects functions: name the program with executable`,
		"spans: [{probe: 'go:main.f:return', executable: a}]": "f:1:17: a span pairs calls with their returns: give go:main.f",
	} {
		_, err := Parse("f", []byte(text))
		require.Error(t, err, text)
		assert.Equal(t, want, err.Error(), text)
	}
}
