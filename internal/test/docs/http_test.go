//go:build linux && (amd64 || arm64)

package docs_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/postgres"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestHTTP follows the README of the shop and the cookbook, whose commands trace the same
// requests.
func TestHTTP(t *testing.T) {
	needs(t, "curl")
	buildCommand(t)
	d := module(t, "http")
	d.run(t, d.command(t, "go build"))
	p := d.start(t, strings.Replace(d.command(t, "./shop -listen"), ":8080", ":0", 1))
	serves := p.WaitMatch(regexp.MustCompile(`^process (\d+) serves http://(.*)`), testenv.Patience)
	d.replace = strings.NewReplacer("PID", serves[1], "localhost:8080", serves[2])
	other := d.start(t, strings.NewReplacer("./shop", "./shop -listen localhost:0", "/var/run/postgresql", postgres.Start(t).Socket).Replace(d.command(t, "./shop -db")))
	other.WaitLine(" serves http://", testenv.Patience)
	book := readGuide(t, "cookbook.md")
	book.find(t, "wait.EndFunc") // the shop has it: see conn in shop.go
	book.dir, book.replace = d.dir+"/scripts", d.replace
	recipe := func(command string) string {
		return d.replace.Replace(book.find(t, command).consoles()[0].command)
	}

	var commands followers
	commands.watch(t, d, serves[1], "request__end", `^ +1 .* "GET /report"$`, d.command(t, "stapsdt hist"))
	commands.watch(t, d, serves[1], "query__end", `shop:query__end +nanoseconds=\S+ rows=1 text="WITH RECURSIVE `, d.command(t, `stapsdt trace -p PID '\*:query`))
	commands.watch(t, d, serves[1], "log__record", `shop:log__record +span=[1-9]\d* message="ask the supplier" attributes="item=apple url=`, d.command(t, `stapsdt trace -p PID '\*:log`))
	commands.watch(t, d, serves[1], "query__start", `^ *1  shop:query__start  "INSERT INTO ordered \(name\)`, recipe("stapsdt count"))
	commands.watch(t, d, serves[1], "pool__end", `^count \d+  average `, recipe("stapsdt hist"))

	var f followers
	f.follow(t, &book.document, `^@requests\[POST /items, 200\]: 1$`, recipe(" latency.bt"))
	f.follow(t, &book.document, `^@microseconds\[/report\]:`, recipe(" pool.bt"))
	f.follow(t, &book.document, `^@by_request\[[0-9]+, /supplier\]: [0-9]{7}$`, recipe("/exe: offcpu.bt"))
	callers := d.command(t, "bpftrace .*/callers")
	require.Equal(t, callers, strings.Replace(recipe(" callers.bt"), " callers", " scripts/callers", 1))
	f.follow(t, d, `^@queries\[/orders, INSERT INTO ordered \(name\) VALUES \(\$1\) RETURNING id\]: 1$`, callers)
	f.follow(t, d, `^    main\.\(\*shop\)\.supply\+`, d.command(t, "bpftrace .*/offcpu"))
	for command := range strings.Lines(d.command(t, "curl (?:localhost|'localhost:8080/[^d]|-X)")) {
		d.run(t, strings.Replace(command, "curl", "curl -fsS", 1))
	}
	f.leave(t)
	commands.leave(t)

	events := d.start(t, strings.Replace(d.command(t, "curl -N"), "curl", "curl -sS", 1))
	require.Eventually(t, func() bool {
		d.run(t, "curl -sS -o /dev/null "+serves[2]+"/items/99999; curl -sS -o /dev/null -X POST '"+serves[2]+"/items?name=pear'")
		return len(events.Lines()) > 0
	}, testenv.Patience, 100*time.Millisecond)
	require.Contains(t, events.Lines()[0], `"route":"POST /items","status":500,`)
}
