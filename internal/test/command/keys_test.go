//go:build linux && (amd64 || arm64)

package command_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// pooler is a program that links clients to servers, as pgbouncer does. A client is its address and its port: three of them are linked
// at once, and neither tells all of them apart. It does so as often as it is told.
const pooler = `
#include <stdio.h>
#include <sys/sdt.h>

static const char *clients[][2] = {{"10.0.0.1", "10.1.0.1"}, {"10.0.0.2", "/run/postgres"}, {"10.0.0.1", "/run/postgres"}};
static const int ports[] = {5000, 5000, 5001};

int main(void) {
	char line[80], address[3][80];
	int n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < 3; i++)
		snprintf(address[i], sizeof address[i], "%s", clients[i][0]); /* equal texts at different addresses */
	puts("ready");
	while (fgets(line, sizeof line, stdin) && sscanf(line, "%d", &n) == 1) {
		while (n-- > 0) {
			for (int i = 0; i < 3; i++)
				DTRACE_PROBE6(PROVIDER, client_server_linked, clients[i][0], ports[i], clients[i][1], 6000, "shop", "app");
			for (int i = 0; i < 3; i++)
				DTRACE_PROBE6(PROVIDER, client_server_unlinked, address[i], ports[i], clients[i][1], 6000, "shop", "app");
		}
		DTRACE_PROBE6(PROVIDER, client_server_linked, "10.0.0.9", 5009, "", 0, "", "");
		puts("ok");
	}
	return 0;
}
`

// TestKeysOfC: the parts of a key are what C strings and numbers are, in the kernel, in a metric, and in a recording.
func TestKeysOfC(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	const provider = "pooler"
	path := filepath.Join(t.TempDir(), provider)
	compileText(t, path, pooler, "-O2", "-Wall", "-DPROVIDER="+provider)
	p := startProcess(t, exec.Command(path))
	probes := []string{provider + ":client_server_linked", provider + ":client_server_unlinked"}
	for key, want := range map[string][]any{ // pairs, starts without an end, ends without a start, and the key of the open one
		"str(arg0),arg1":                     {189, 1, 0, []any{"10.0.0.9", 5009.}},
		"arg1,str(arg0)":                     {189, 1, 0, []any{5009., "10.0.0.9"}},
		"thread,str(arg0),comm,arg1+arg3":    {189, 1, 0, []any{float64(p.PID()), "10.0.0.9", provider, 5009.}},
		"str(arg0),str(arg2),str(arg0),arg1": {189, 1, 0, []any{"10.0.0.9", "", "10.0.0.9", 5009.}},
		"arg1":                               {126, 64, 63, 5009.},
		"str(arg0)":                          {126, 64, 63, "10.0.0.9"},
		"arg0,arg1":                          {0, 4, 189, nil}, // the addresses differ
	} {
		tr := startTrace(t, p, "latency", "-o", "json", "-p", pid(p), probes[0], probes[1], "--key", key)
		tell(p, "63")
		rows, unpaired := tr.stopMeasuring()
		count := 0
		for _, r := range rows {
			count += r.Count
		}
		got := []any{count, *unpaired.StartsWithoutEnd, unpaired.EndsWithoutStart, unpaired.Longest[0].Key}
		if want[3] == nil {
			got[1], got[3] = unpaired.Open, nil
		}
		require.Equal(t, want, got, key)
	}

	file := filepath.Join(t.TempDir(), "recording")
	rec := startRecord(t, p, file, provider+":*")
	tell(p, "63")
	interrupt(t, rec)
	r := runCommand(t, "latency", "-o", "json", "--from", file, probes[0], probes[1], "--key", "arg1,arg3,arg2")
	all := lines[measured](t, r.stdout)
	require.Equal(t, []int{189, 1, 0}, []int{all[0].Count, *all[1].StartsWithoutEnd, all[1].EndsWithoutStart}, "a recording has the addresses")

	e := startExporter(t, provider, `
metrics:
  - {name: link_seconds, start: "PROVIDER:client_server_linked", end: "PROVIDER:client_server_unlinked", key: [str(arg0), arg1], duration: true, labels: []}
  - {name: links, start: "PROVIDER:client_server_linked", end: "PROVIDER:client_server_unlinked", key: [str(arg0), arg1], in_flight: true, labels: []}
  - {name: port_seconds, start: "PROVIDER:client_server_linked", end: "PROVIDER:client_server_unlinked", key: arg1, duration: true, labels: []}
`)
	e.waitForSites("link_seconds", 3)
	e.waitForSites("links", 3)
	e.waitForSites("port_seconds", 3)
	tell(p, "63")
	values := e.scrape()
	require.Equal(t, []float64{189, 1, 126}, []float64{values["link_seconds_count"], values["links"], values["port_seconds_count"]})
}

// TestWrongKeys: what is wrong with a key is said before anything is counted.
func TestWrongKeys(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "wrong")
	compileText(t, path, pooler, "-O2", "-Wall", "-DPROVIDER=wrong")
	p := startProcess(t, exec.Command(path))
	for _, c := range []struct {
		key, want string
		status    int
	}{
		{"str(arg0),nothing", "undefined: nothing", 2},
		{"str(arg0) arg1", "an operator such as == or && is missing before arg1", 2},
		{"str(arg0),goroutine", "goroutines cannot be told apart", 2},
		{"str(arg0),str(arg2),str(arg4),str(arg5),executable,str(arg0)", "this needs more than the 512 bytes of a BPF program's stack", 1},
		{"str(arg0),str(arg2),str(arg0),str(arg2),str(arg0),str(arg2),str(arg0)", "this needs more than the 512 bytes of a BPF program's stack", 1},
	} {
		r := runCommand(t, "latency", "-p", pid(p), "wrong:client_server_linked", "wrong:client_server_unlinked", "-d", "1ms", "--key", c.key)
		r.ends(t, c.status, c.want)
	}
}
