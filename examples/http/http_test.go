//go:build linux

package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/postgres"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// server is the program, running.
type server struct {
	*tracetest.Process
	url string
}

// start starts the shop. Without another flag its database is a file of SQLite.
func start(t testing.TB, flags ...string) *server {
	t.Helper()
	flags = append([]string{"-listen", "127.0.0.1:0", "-db", filepath.Join(t.TempDir(), "shop.db")}, flags...)
	p := tracetest.Command(t, exec.Command(tracetest.Build(t, "."), flags...))
	line := p.WaitLine(" serves ", testenv.Patience)
	return &server{Process: p, url: line[strings.Index(line, "http://"):]}
}

// do sends a request. It may be called from any goroutine.
func (s *server) do(method, path string, status int) error {
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != status {
		return fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// load sends a request n times, by four clients at once.
func (s *server) load(t testing.TB, n int, method, path string, status int) {
	t.Helper()
	todo, results := make(chan struct{}, n), make(chan error, n)
	for range n {
		todo <- struct{}{}
	}
	close(todo)
	for range 4 {
		go func() {
			for range todo {
				results <- s.do(method, path, status)
			}
		}()
	}
	for range n {
		require.NoError(t, <-results)
	}
}

// bucket is a line of a histogram: [32K, 64K)  3 |@@@|
var bucket = regexp.MustCompile(`^\[(\d+)([KM]?)(?:, \S+\)|\]) +(\d+) \|`)

// histogram returns the counts of a histogram's buckets by their lower end.
func histogram(t *testing.T, output, name string) map[int]int {
	t.Helper()
	_, rest, ok := strings.Cut(output, name+":")
	require.True(t, ok, "no %s in %s", name, output)
	_, rest, _ = strings.Cut(rest, "\n")
	counts := map[int]int{}
	for line := range strings.Lines(rest) {
		m := bucket.FindStringSubmatch(line)
		if m == nil {
			break
		}
		from, count := number(t, m[1])*map[string]int{"": 1, "K": 1 << 10, "M": 1 << 20}[m[2]], number(t, m[3])
		if count > 0 {
			counts[from] = count
		}
	}
	return counts
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

func total(counts map[int]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// TestLatencyByRoute: and the provider may have any name.
func TestLatencyByRoute(t *testing.T) {
	s := start(t, "-name", "other")
	s.load(t, 5, "GET", "/items/1", 200) // before anybody looks: not counted
	tr := tracetest.Script(t, s.Process, "scripts/latency.bt")
	s.load(t, 40, "GET", "/items/1", 200)
	s.load(t, 7, "GET", "/items/99", 404)
	s.load(t, 1, "POST", "/items?name=pear", 200)
	s.load(t, 3, "POST", "/items?name=pear", 500)
	s.load(t, 8, "GET", "/supplier?ms=40", 200)
	out := tr.Stop() + "\n"

	require.Contains(t, out, "@requests[GET /items/{id}, 200]: 40\n")
	require.Contains(t, out, "@requests[GET /items/{id}, 404]: 7\n")
	require.Contains(t, out, "@requests[POST /items, 200]: 1\n")
	require.Contains(t, out, "@requests[POST /items, 500]: 3\n")
	require.Equal(t, 47, total(histogram(t, out, "@microseconds[GET /items/{id}]")))
	require.Equal(t, 4, total(histogram(t, out, "@microseconds[POST /items]")))
	// 40 ms are in the bucket that begins at 32 K, or above when the machine is busy.
	supplier := histogram(t, out, "@microseconds[GET /supplier]")
	require.Equal(t, 8, total(supplier))
	for from := range supplier {
		require.GreaterOrEqual(t, from, 32<<10)
		require.Less(t, from, int(testenv.Patience.Microseconds()))
	}
}

// TestPage: the shop shows its probes itself.
func TestPage(t *testing.T) {
	s := start(t)
	answer, err := http.Get(s.url + "/debug/probes/events.json?probe=request__end&filter=status==404&events=1")
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewReader(answer.Body)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil { // until the shop observes the probe
			_ = s.do("GET", "/items/1", 200)
			_ = s.do("GET", "/items/99", 404)
		}
	}()
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, `"provider":"shop","probe":"request__end"`)
	require.Contains(t, line, `"route":"GET /items/{id}","status":404,"bytes":13,"method":"GET","path":"/items/99"}`)
}

// TestPostgres: with PostgreSQL the scripts show the same, and for an order, whose queries are not the request's own,
// too.
func TestPostgres(t *testing.T) {
	s := start(t, "-db", "postgres:///"+postgres.User+"?user="+postgres.User+"&sslmode=disable&host="+postgres.Start(t).Socket)
	s.load(t, 1, "POST", "/items?name=pear", 200)
	callers := tracetest.Script(t, s.Process, "scripts/callers.bt")
	s.load(t, 1, "POST", "/items?name=pear", 500)
	s.load(t, 2, "GET", "/items", 200)
	s.load(t, 1, "POST", "/orders?item=1", 200)
	s.load(t, 1, "POST", "/orders?item=99", 404)
	const insert, order, get, last = "INSERT INTO item (name) VALUES ($1) RETURNING id", "INSERT INTO ordered (name) VALUES ($1) RETURNING id", "SELECT name FROM item WHERE id = $1", "SELECT max(id) FROM item"
	out := callers.Stop() + "\n"
	for _, line := range []string{"/items, " + last + "]: 2", "/items, " + get + "]: 4", "/orders, " + get + "]: 2", "/orders, " + order + "]: 1", "/items, " + insert + "]: 1"} {
		require.Contains(t, out, "@queries["+line+"\n")
	}
	require.Equal(t, map[int]int{1: 1, 2: 1}, histogram(t, out, "@queries_per_request[/orders]"))
}

// queue sends four requests for an item while the database is locked, so that one has the connection to it and three wait for
// that for 50 ms at least.
func (s *server) queue(t *testing.T, db string) {
	t.Helper()
	other, err := sql.Open("sqlite", db)
	require.NoError(t, err)
	defer other.Close()
	lock, err := other.Conn(t.Context())
	require.NoError(t, err)
	_, err = lock.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	require.NoError(t, err)
	waits := tracetest.Bpftrace(t, `usdt:*:pool__start { printf("wait\n"); }`, "-p", strconv.Itoa(s.PID()))
	answers := make(chan error)
	for range 4 {
		go func() { answers <- s.do("GET", "/items/1", 200) }()
	}
	waits.WaitLines(4, testenv.Patience)
	waits.Stop()
	time.Sleep(50 * time.Millisecond)
	_, err = lock.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	for range 4 {
		require.NoError(t, <-answers)
	}
	require.NoError(t, lock.Close())
}

// patientDatabase returns the file of a database, and the source of one that waits where it is locked.
func patientDatabase(t *testing.T) (file, source string) {
	file = filepath.Join(t.TempDir(), "shop.db")
	return file, file + "?_pragma=busy_timeout(600000)"
}

// TestPool: requests wait until others return the one connection to a file of SQLite.
func TestPool(t *testing.T) {
	db, source := patientDatabase(t)
	s := start(t, "-db", source)
	tr := tracetest.Script(t, s.Process, "scripts/pool.bt")
	s.queue(t, db)
	s.load(t, 3, "POST", "/orders?item=1", 200)
	out := tr.Stop() + "\n"
	require.Equal(t, map[int]int{1: 10}, histogram(t, out, "@in_use"))
	require.Equal(t, 6, total(histogram(t, out, "@microseconds[/orders]")))
	items := histogram(t, out, "@microseconds[/items/1]")
	require.Equal(t, 4, total(items))
	waited := 0
	for from, n := range items {
		if from >= 32<<10 {
			waited += n
		}
	}
	require.GreaterOrEqual(t, waited, 3, "four came at once: %v", items)
}

// TestOffCPU sees what waits: a request for its supplier, and others for the database's one connection.
func TestOffCPU(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the script reads registers of amd64")
	}
	db, source := patientDatabase(t)
	s := start(t, "-db", source)
	script, err := os.ReadFile("scripts/offcpu.bt")
	require.NoError(t, err)
	exe := fmt.Sprintf("/proc/%d/exe", s.PID())
	tr := tracetest.Bpftrace(t, strings.ReplaceAll(string(script), "EXE", exe), "-p", strconv.Itoa(s.PID()))
	s.load(t, 6, "GET", "/supplier?ms=50", 200)
	s.queue(t, db)
	out := tr.Stop() + "\n"

	waited := map[string][]int{}
	for key, us := range tracetest.Table(t, out, "by_request") {
		_, path, _ := strings.Cut(key, ", ")
		waited[path] = append(waited[path], us)
	}
	require.Len(t, waited["/supplier"], 6)
	for _, us := range waited["/supplier"] {
		require.GreaterOrEqual(t, us, 49_000)
		require.Less(t, us, int(testenv.Patience.Microseconds()))
	}
	stacks := regexp.MustCompile(`(?s)@by_stack\[(/[\w/]+), ([^]]*)\]: (\d+)`).FindAllStringSubmatch(out, -1)
	pool := 0
	for _, m := range stacks {
		if strings.Contains(m[2], "database/sql.(*DB).conn+") {
			require.Equal(t, "/items/1", m[1])
			pool += number(t, m[3])
		}
	}
	require.Positive(t, pool, out)
}
