//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
)

// waiter is a program that passes times.
const waiter = `package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

type job struct{ name string; at time.Time }

//go:noinline
func wait(j *job, until time.Time, n int) time.Time { return until }

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	now, set := time.Now(), time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	wait(&job{"set", set}, set.Add(time.Second), 1)
	wait(&job{"now", now}, now.Add(3 * time.Second), 2)
	wait(&job{"zero", time.Time{}}, set, 3)
	wait(&job{"early", time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)}, set, 4)
	fmt.Println("done")
	in.ReadString('\n')
}
`

// TestTimes: conditions and keys use times. They reject a time that is not set, or that no number
// represents.
func TestTimes(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, waiter, nil)
	for condition, want := range map[string][]any{
		`until - j.at == 1s`:                     {"set"},
		`until - j.at > 1s`:                      {"now"},
		`j.at < "2026-01-02T02:04:06Z"`:          {"set", "zero"},
		`until == "2026-01-02T02:04:05.000006Z"`: {"zero", "early"},
	} {
		t.Run(condition, func(t *testing.T) {
			names := []any{}
			specs := []string{"go:main.wait"}
			for _, line := range launch(t, path).run(specs, "trace", "-o", "json", "--show", "j.name", "-w", condition) {
				names = append(names, decode(t, line).Args["j.name"])
			}
			assert.Equal(t, want, names)
		})
	}
	t.Run("keys", func(t *testing.T) {
		counts := map[any]int{}
		for _, r := range rows(t, launch(t, path).run([]string{"go:main.wait:return"}, "count", "-o", "json", "--by", "ret0", "-w", "ret0 < \"2026-02-01T00:00:00Z\"")) {
			counts[r.By["ret0"]] += r.Count
		}
		assert.Equal(t, map[any]int{"2026-01-02T02:04:06.000006Z": 1, "2026-01-02T02:04:05.000006Z": 2}, counts)
	})
}
