package ending

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// life is a process that fired its last event at second 1000 of the boot, which was at 1,700,000,000.
func life() *Life {
	last := time.Unix(1_700_001_000, 0)
	return &Life{
		PID: 42, Executable: "/usr/bin/a-shop-with-a-long-name", Began: last.Add(-time.Minute), Last: last,
		Ahead: 1_700_000_000 * time.Second, Here: true,
	}
}

// answer lets systemctl and journalctl print texts, by a word of their command lines, and the kernel have some messages.
func answer(t *testing.T, texts map[string]string, kernel string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kmsg")
	require.NoError(t, os.WriteFile(path, []byte(kernel), 0o600))
	before, ran := messages, run
	messages = path
	run = func(_ context.Context, name string, args ...string) []byte {
		for word, text := range texts {
			if strings.HasPrefix(word, name) && strings.HasSuffix(strings.Join(args, " "), strings.TrimPrefix(word, name+" ")) {
				return []byte(text)
			}
		}
		return nil
	}
	t.Cleanup(func() { messages, run = before, ran })
	for _, name := range []string{"SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS", "INVOCATION_ID"} {
		t.Setenv(name, "")
	}
}

// texts returns what Of tells, in lines with the seconds after the last event.
func texts(t *testing.T, l *Life, unit string) (lines []string) {
	for _, e := range Of(t.Context(), l, unit) {
		line := e.Source + ": " + e.Text
		if e.Time != nil {
			line += " after " + e.Time.Sub(l.Last).String()
		}
		lines = append(lines, line)
	}
	return lines
}

// shown is what systemctl shows of a unit whose process was killed, with another result, code or status.
func shown(pid, result, code, status string) map[string]string {
	return map[string]string{"systemctl -- shop.service": "LoadState=loaded\nResult=" + result + "\nExecMainPID=" + pid +
		"\nExecMainCode=" + code + "\nExecMainStatus=" + status + "\nExecMainExitTimestampMonotonic=1003000000\n"}
}

// TestUnit: the end of the process that a unit has run last is that of the recording, if it has its PID.
func TestUnit(t *testing.T) {
	for _, c := range []struct{ result, code, status, want string }{
		{"oom-kill", "2", "9", "killed by SIGKILL, because memory ran out (oom-kill)"},
		{"signal", "2", "15", "killed by SIGTERM"},
		{"core-dump", "3", "6", "killed by SIGABRT, with a core dump"},
		{"exit-code", "1", "2", "exited with status 2"},
		{"watchdog", "3", "6", "killed by SIGABRT, with a core dump (watchdog)"},
	} {
		answer(t, shown("42", c.result, c.code, c.status), "")
		require.Equal(t, []string{"systemd: shop.service: " + c.want + " after 3s"}, texts(t, life(), "shop.service"))
	}
	answer(t, shown("43", "signal", "2", "9"), "")
	require.Empty(t, texts(t, life(), "shop.service"), "another process")
	require.Empty(t, texts(t, life(), "--help"))
	later := life()
	later.Last = later.Last.Add(time.Minute)
	answer(t, shown("42", "signal", "2", "9"), "")
	require.Empty(t, texts(t, later, "shop.service"), "an earlier process with this PID")
	elsewhere := life()
	elsewhere.Here = false
	require.Empty(t, texts(t, elsewhere, "shop.service"), "another boot")
}

// TestStopPost: an ExecStopPost has the end in its environment.
func TestStopPost(t *testing.T) {
	answer(t, nil, "")
	t.Setenv("SERVICE_RESULT", "oom-kill")
	t.Setenv("EXIT_CODE", "killed")
	t.Setenv("EXIT_STATUS", "KILL")
	require.Empty(t, texts(t, life(), ""), "not of systemd")
	t.Setenv("INVOCATION_ID", "1")
	all := texts(t, life(), "")
	require.Len(t, all, 1)
	require.Regexp(t, `^systemd: (\S+\.service: )?killed by SIGKILL, because memory ran out \(oom-kill\)$`, all[0])
}

// TestJournal: a process that has ended before another one of its unit was started is in the journal, with what it has printed.
func TestJournal(t *testing.T) {
	const managed = `{"__REALTIME_TIMESTAMP":"1700000990000000","MESSAGE":"shop.service: Main process exited, code=exited","EXIT_CODE":"exited","EXIT_STATUS":"9"}
{"__REALTIME_TIMESTAMP":"1700001001000000","MESSAGE":"shop.service: Control process exited","EXIT_CODE":"exited","EXIT_STATUS":"8"}
{"__REALTIME_TIMESTAMP":"1700001002000000","MESSAGE":"shop.service: Main process exited, code=killed","EXIT_CODE":"killed","EXIT_STATUS":"9"}
{"__REALTIME_TIMESTAMP":"1700001003000000","MESSAGE":"shop.service: Failed with result 'oom-kill'.","UNIT_RESULT":"oom-kill"}
`
	const printed = `{"__REALTIME_TIMESTAMP":"1700001001500000","MESSAGE":"panic: boom","_SYSTEMD_UNIT":"shop.service"}
{"__REALTIME_TIMESTAMP":"1700001001500001","MESSAGE":"goroutine 7 [running]:","_SYSTEMD_UNIT":"shop.service"}
{"__REALTIME_TIMESTAMP":"1700001001500002","MESSAGE":[1,2],"_SYSTEMD_UNIT":"shop.service"}
`
	killed := "systemd: shop.service: killed by SIGKILL, because memory ran out (oom-kill) after 2s"
	all := map[string]string{"journalctl _PID=1 UNIT=shop.service": managed, "journalctl _PID=42": printed}
	answer(t, all, "")
	require.Equal(t, []string{killed, `journal: it printed "panic: boom" after 1.5s`}, texts(t, life(), ""), "the journal has the unit")
	all["journalctl _PID=42"] = strings.ReplaceAll(printed, "panic: boom", strings.Repeat("é", 200)+`\u001b[2J`)
	answer(t, all, "")
	require.Equal(t, []string{killed}, texts(t, life(), ""), "the last line is no text")
	all["journalctl _PID=42"] = strings.Split(all["journalctl _PID=42"], "\n")[0]
	answer(t, all, "")
	require.Equal(t, []string{killed, `journal: its last line was "` + strings.Repeat("é", 80) + `…" after 1.5s`}, texts(t, life(), ""))
}

// TestKernel: the OOM killer's message names the process, or in a container its program.
func TestKernel(t *testing.T) {
	message := func(second, process string) string {
		return "3,7," + second + "000000,-;Memory cgroup out of memory: Killed process " + process + " total-vm:1kB\n"
	}
	const killed, other = "kernel: the OOM killer killed the process", "kernel: the OOM killer killed a process of this name, with the PID 7"
	for _, c := range []struct{ message, want string }{
		{message("1001", "42 (shop)"), killed + " after 1s"},
		{message("1060", "42 (shop)"), killed + " after 1m0s"},
		{message("1001", "7 (a-shop-with-a-l)"), other + " after 1s"},
		{message("1060", "7 (a-shop-with-a-l)"), ""},
		{message("1001", "7 (other)"), ""},
		{message("900", "42 (shop)"), ""},
		{"6,8,1001000000,-;shop[42]: Killed\n", ""},
	} {
		answer(t, nil, c.message)
		require.Equal(t, c.want, strings.Join(texts(t, life(), ""), "\n"), c.message)
	}
	answer(t, map[string]string{"journalctl _TRANSPORT=kernel": `{"__REALTIME_TIMESTAMP":"1700001001000000","MESSAGE":"Out of memory: Killed process 42 (shop)"}`}, "")
	require.Equal(t, []string{killed + " after 1s"}, texts(t, life(), ""))
}

// TestShow: a unit that is not loaded has no properties.
func TestShow(t *testing.T) {
	answer(t, map[string]string{"systemctl -- a.service": "LoadState=not-found\nResult=success\n", "systemctl -- b.service": "LoadState=loaded\nEnvironment=A=b C=d\n"}, "")
	require.Nil(t, Show(t.Context(), "a.service", "Result"))
	require.Equal(t, "A=b C=d", Show(t.Context(), "b.service", "Environment")["Environment"])
	for word, want := range map[string]bool{"shop.service": true, "a@b.service": true, "-a.service": false, "shop": false, "a b.service": false, "": false} {
		require.Equal(t, want, IsUnit(word), word)
	}
}
