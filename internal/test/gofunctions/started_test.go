//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// measuring is a program that measures each call of get inside of it and around it. Some calls panic, which a later call at the
// same depth must not be charged for, and get calls itself.
const measuring = `package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

type store struct{ name string }

//go:noinline
func (s *store) get(key string, n int) (inner time.Duration, err error) {
	began := time.Now()
	if n%100 == 7 {
		panic(key)
	}
	if n%10 == 3 {
		time.Sleep(5 * time.Millisecond)
		err = errors.New("slow")
	}
	if n >= 1000 {
		s.get(key, n-1000)
	}
	return time.Since(began), err
}

func slow(s *store, n int) (inner time.Duration, err error) {
	defer func() { recover() }()
	return s.get(fmt.Sprintf("key%d%s", n, strings.Repeat("-", n)), n)
}

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	s := &store{"main"}
	for n := range 200 {
		began := time.Now()
		inner, _ := slow(s, n)
		outer := time.Since(began)
		fmt.Println("call", n, int64(inner), int64(outer))
	}
	fmt.Println("done")
	in.ReadString('\n')
}
`

// TestElapsed: a return has the time since its call, which is longer than what the function measures inside, and shorter than
// what its caller measures. It has the arguments of the call too, of which long texts are cut.
func TestElapsed(t *testing.T) {
	testenv.NeedsRoot(t)
	const returns = "go:main.(*store).get:return"
	path := build(t, measuring, nil)
	run := func(args ...string) (said, printed []string) {
		s := launch(t, path)
		c := s.command([]string{strings.TrimSuffix(returns, ":return"), returns}, args...)
		s.Say("")
		s.Expect("done", testenv.Patience)
		return s.Lines(), stop(t, c)
	}
	said, printed := run("trace", "-o", "json", returns, "-w", "elapsed > 1ms || failed", "--show", "elapsed,start.n,key,start.s.name,failed")
	number := func(e call, name string) int {
		n, err := e.Args[name].(json.Number).Int64()
		require.NoError(t, err)
		return int(n)
	}
	traced := map[int]call{}
	for _, line := range printed {
		e := decode(t, line)
		traced[number(e, "start.n")] = e
	}
	calls := 0
	for _, line := range said {
		var n int
		var inner, outer time.Duration
		if _, err := fmt.Sscanf(line, "call %d %d %d", &n, &inner, &outer); err != nil || n%100 == 7 {
			assert.NotContains(t, traced, n, "it has not returned")
			continue
		}
		calls++
		e, shown := traced[n]
		if n%10 != 3 && !shown { // a fast one, unless the machine interrupted it
			assert.Less(t, inner, time.Millisecond, n)
			continue
		}
		require.True(t, shown, n)
		elapsed := time.Duration(number(e, "elapsed"))
		assert.GreaterOrEqual(t, elapsed, inner, n)
		assert.LessOrEqual(t, elapsed, outer, n)
		key := fmt.Sprintf("key%d%s", n, strings.Repeat("-", n))
		assert.Equal(t, key[:min(len(key), 64)], strings.TrimSuffix(e.Args["key"].(string), "…"), n)
		assert.Equal(t, "main", e.Args["start.s.name"])
		assert.Equal(t, n%10 == 3, e.Args["failed"])
	}
	require.Equal(t, 198, calls)

	_, printed = run("stack", "-o", "folded", returns, "-w", "elapsed > 1ms || failed")
	require.Regexp(t, `(?m)^`+regexp.QuoteMeta(returns)+`;.*;main\.slow;main\.\(\*store\)\.get [2-9]\d$`, strings.Join(printed, "\n"))

	_, printed = run("count", "-o", "json", returns, "--by", "start.n/100,elapsed > 1h", "-w", `strings.HasPrefix(key, "key1")`)
	byHundreds := map[string]int{}
	for _, r := range rows(t, printed) {
		assert.Equal(t, false, r.By["elapsed > 1h"])
		byHundreds[fmt.Sprint(r.By["start.n/100"])] = r.Count
	}
	// key1, key10 to key19, and key100 to key199 without key107, which panics
	require.Equal(t, map[string]int{"0": 11, "1": 99}, byHundreds)
}
