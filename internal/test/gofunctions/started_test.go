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
	calls, cut := 0, 0
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
		if len(key) >= 64 {
			key = key[:63]
			cut++
		}
		assert.Equal(t, key, e.Args["key"], n)
		assert.Equal(t, "main", e.Args["start.s.name"])
		assert.Equal(t, n%10 == 3, e.Args["failed"])
	}
	require.Equal(t, 198, calls)
	require.Equal(t, cut, strings.Count(strings.Join(printed, "\n"), `"cut":["key"]`))

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

// versioned is a program of which two versions have other types of the same names.
const versioned = `package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

type color int32

const (
	%sA color = iota + 1
	%[1]sB
)

type %[1]sError struct{}

func (%[1]sError) Error() string { return "" }

//go:noinline
func work(c color, err error, d %[2]s) (out error) { time.Sleep(time.Millisecond); return err }

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	_, colors := work(0, nil, 7), []color{%[1]sA, %[1]sB}
	for _, c := range colors {
		work(c, %[1]sError{}, 5000000)
	}
	fmt.Println("done")
	in.ReadString('\n')
}
`

// TestElapsedOfVersions: the ends of two programs with functions of one name have the values of their own calls, as these have
// them: with the constants, the dynamic types and the units of their program.
func TestElapsedOfVersions(t *testing.T) {
	testenv.NeedsRoot(t)
	const returns = "go:main.work:return"
	both := []string{"go:main.work", returns}
	one := launch(t, build(t, fmt.Sprintf(versioned, "first", "int64"), nil))
	other := launch(t, build(t, fmt.Sprintf(versioned, "second", "time.Duration"), nil))
	c := one.command(both, "trace", returns, "-w", "elapsed >= 1ms", "--show", "start.c,start.err,start.d", "-p", fmt.Sprint(other.PID()))
	place := other.list("go:main.work")[0]
	offsets := append(place.Returns, place.Offset)
	require.Eventually(t, func() bool { return other.probed(offsets) }, testenv.Patience, 10*time.Millisecond)
	for _, s := range []*subject{one, other} {
		s.Say("")
		s.Expect("done", testenv.Patience)
	}
	out := strings.Join(stop(t, c), "\n")
	for _, want := range []string{
		"start.c=0 start.err=nil start.d=7\n", "start.c=firstA (1) start.err=main.firstError start.d=5000000\n",
		"start.c=firstB (2) start.err=main.firstError start.d=5000000\n", "start.c=0 start.err=nil start.d=7ns\n",
		"start.c=secondA (1) start.err=main.secondError start.d=5ms\n", "start.c=secondB (2) start.err=main.secondError start.d=5ms",
	} {
		assert.Equal(t, 1, strings.Count(out+"\n", want), "%s in\n%s", want, out)
	}
}
