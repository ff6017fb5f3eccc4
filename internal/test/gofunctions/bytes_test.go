//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// writer is a program that passes bytes.
const writer = `package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
)

type (
	octet  uint8
	frame  struct{ kind [4]octet; body []byte }
)

//go:noinline
func write(p []byte, kind [4]octet, f *frame) int { return len(p) + len(f.body) }

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	n := 0
	for _, p := range [][]byte{
		[]byte("GET /orders"), []byte("a\x00b\x00GET"), []byte("\xff\xfeGET /"), nil, []byte("GET"),
		append(make([]byte, 0, 100), bytes.Repeat([]byte("é"), 40)...), bytes.Repeat([]byte{0xff}, 80),
	} {
		n += write(p, [4]octet{'a', 'b', 'c', octet(len(p))}, &frame{[4]octet{'k', 0, 'd', 1}, p})
	}
	fmt.Println("done", n)
	in.ReadString('\n')
}
`

// TestBytes: conditions, keys and output see the bytes of slices and arrays.
func TestBytes(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, writer, nil)
	specs := []string{"go:main.write"}
	run := func(args ...string) []string { return launch(t, path).run(specs, args...) }
	hex := "0x" + strings.Repeat("ff", 20)
	for condition, want := range map[string][]any{
		`p == "GET"`:                                        {"GET"},
		`strings.HasPrefix(p, "GET")`:                       {"GET /orders", "GET"},
		`strings.HasSuffix(p, "GET")`:                       {"a\x00b\x00GET", "GET"},
		`strings.HasSuffix(p, "a")`:                         {},
		`strings.Contains(p, "GET /")`:                      {"GET /orders", "0xfffe474554202f"},
		`strings.Contains(f.body, "b")`:                     {"a\x00b\x00GET"},
		`len(p) == 80`:                                      {strings.Repeat("é", 10), hex},
		`kind == "abc\x03"`:                                 {"GET"},
		`len(kind) == 4 && p != "GET" && p == ""`:           {""},
		`strings.HasPrefix(f.kind, "k") && f.body == "GET"`: {"GET"},
	} {
		t.Run(condition, func(t *testing.T) {
			values := []any{}
			for _, line := range run("trace", "-o", "json", "--strlen", "20", "-w", condition) {
				values = append(values, decode(t, line).Args["p"])
			}
			assert.Equal(t, want, values)
		})
	}
	t.Run("lines", func(t *testing.T) {
		lines := run("trace", "--strlen", "5", "-v", "-w", "len(p) > 11")
		require.Len(t, lines, 3)
		assert.Contains(t, lines[1], `p="éé"… kind="abcP" `)
		assert.Contains(t, lines[1], `f={kind="k\x00d\x01" body="éé"…}`)
		assert.Contains(t, lines[2], `p="0xffffffffff"… kind="abcP" `)
		assert.True(t, strings.HasSuffix(lines[1], " cap(p)=100"), lines[1])
		assert.True(t, strings.HasSuffix(lines[2], " cap(p)=80"), lines[2])
	})
	t.Run("keys", func(t *testing.T) {
		counts := map[string]int{}
		for _, r := range rows(t, run("count", "-o", "json", "--by", "f.body,f.kind,len(p)")) {
			counts[r.By["f.body"].(string)+" "+r.By["len(p)"].(json.Number).String()] += r.Count
			assert.Equal(t, "k\x00d\x01", r.By["f.kind"])
		}
		assert.Equal(t, map[string]int{
			"GET /orders 11": 1, "a\x00b\x00GET 7": 1, "0xfffe474554202f 7": 1, " 0": 1, "GET 3": 1,
			strings.Repeat("é", 32) + " 80": 1, "0x" + strings.Repeat("ff", 64) + " 80": 1,
		}, counts)
	})
}
