//go:build linux

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ofPackages is how packages of Go name what is wrong.
var ofPackages = regexp.MustCompile(`strconv|invalid syntax|value out of range|parsing "|parse "|time: |unit in duration|expected '|found '|expected operand|literal|missing ','|` +
	`address .*: |too many colons|missing port|unknown port|lookup |listen tcp|invalid argument|unknown flag|shorthand|needs an argument|illegal|syntax error in pattern|unmarshal`)

// refused runs the command, which must find its arguments wrong, and returns what it says.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	var out, problem bytes.Buffer
	status := execute(args, &out, &problem)
	text := problem.String()
	assert.Equal(t, exitUsage, status, "%q, %q", args, text)
	assert.Zero(t, out.Len(), "%q, %q", args, text)
	assert.Empty(t, ofPackages.FindString(text), "%q: a message of a package: %s", args, text)
	return text
}

// TestWrongFlags: a mistake in the command line is refused in words of our own.
func TestWrongFlags(t *testing.T) {
	me := strconv.Itoa(os.Getpid())
	trace := []string{"trace", "-p", me, "a:b"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"trac", "-p", "1"}, `there is no command "trac"; the nearest name is trace: see stapsdt help`},
		{[]string{"ls"}, `there is no command "ls"; the command for that is list: see stapsdt help`},
		{[]string{"ps", "-p", "1"}, `there is no command "ps"; the command for that is list`},
		{[]string{"help", "watch"}, `there is no command "watch"; the command for that is top`},
		{[]string{"myapp:request__done"}, `there is no command "myapp:request__done"; to trace these probes, give stapsdt trace 'myapp:request__done'`},
		{[]string{"count", "-p", me, "a:b", "-by", "c"}, "-by has one dash, but this flag has two: give --by"},
		{append(trace, "-output=json"), "-output=json has one dash, but this flag has two: give --output=json"},
		{[]string{"trace", "-pid", me, "a:b"}, "-pid has one dash, but this flag has two: give --pid"},
		{append(trace, "--form", "x"), "there is no flag --form; the nearest name is --from: see stapsdt trace --help"},
		{append(trace, "--filter", "x"), "there is no flag --filter; the flag for that is -w: see stapsdt trace --help"},
		{append(trace, "--json"), "there is no flag --json; the flag for that is -o"},
		{[]string{"count", "-p", me, "a:b", "--group-by", "c"}, "there is no flag --group-by; the flag for that is --by"},
		{[]string{"trace", me, "a:b"}, `is not [FILE:]PROVIDER:PROBE: for the process with this PID, give -p ` + me},
		{append(trace, "-o", "json", "-O", "x.json"), "-O x.json is for -o chrome and -o perfetto: for -o json, write >x.json"},
		{append(trace, "-w", "status", "=", "404"), `"=" is not [FILE:]PROVIDER:PROBE: an expression with spaces needs quotes, as in -w 'status == 404'`},
		{[]string{"trace", "-p", me, "main.f"}, `"main.f" is not [FILE:]PROVIDER:PROBE: for a function of a Go program, give go:main.f`},
		{[]string{"trace", "-p", me, "usdt:*:a:b"}, `"usdt:*:a:b" is in the notation of bpftrace: give a:b`},
		{[]string{"export", "rules.yaml"}, "export takes no argument rules.yaml: give the file of rules as -c rules.yaml"},
		{[]string{"hist", "-p", me, "elapsed", "a:b"}, "hist takes the SPEC before the expression: give a:b elapsed"},
		{append(trace, "-w", "path =~ /x/"), `=~ is not an operator: use strings.Contains(path, "x")`},
		{append(trace, "-w", "elapsed > 10 ms"), "a duration has no space: 10ms instead of 10 ms"},
		{[]string{"nothing-like-it"}, `there is no command "nothing-like-it": see stapsdt help`},
		{[]string{"help", "nothing"}, `there is no command "nothing": see stapsdt help`},
		{[]string{"completion", "tcsh"}, `there is no completion for "tcsh"`},
		{[]string{"trace", "localhost:8090", "a:b"}, "localhost:8090 is not a SPEC: the address of a page of probes begins with http://"},
		{[]string{"list", "localhost:8090"}, "as in http://localhost:8090"},
		{[]string{"count", "-p", me, "a:b", "--sort", "p99"}, `--sort takes count here, not "p99"`},
		{[]string{"count", "-p", me, "a:b", "--sum", "a+"}, "an operand is missing at the end"},
		{[]string{"latency", "-p", me, "a:b", "--sort", "sum"}, "--sort takes count or average or p50 or p99 or max here"},
		{[]string{"trace", "-p", "0", "a:b"}, "-p takes the PID of a process, not 0"},
		{[]string{"list", "-p", "-1"}, "of a process, not -1"},
		{append(trace, "--budget", "1"), "--budget takes more than 0% and at most 100%"},
		{append(trace, "--budget", "NaN%"), "--budget takes more than 0% and at most 100%"},
		{[]string{"count", "-a", "a:b", "--budget", "1%"}, "--budget is a share of the processor time of processes: name them with -p"},
		{[]string{"count", "--from", "x", "a:b", "--budget", "1%"}, "--from cannot be combined with -p, -a, -v, --via, --wait or --budget"},
		{append(trace, "--budget", "1%", "--via", "socket"), "--budget needs the kernel, but --via socket excludes it"},
		{[]string{"count", "-p", "99999999999999999999", "a:b"}, "takes the PID of a process, not 99999999999999999999"},
		{[]string{"script", "-p", "", "a:b"}, "but is empty"},
		{[]string{"doctor", "-p", "0"}, "-p takes the PID of a process, not 0"},
		{[]string{"trace", "-p", "1", "2", "a:b"}, `as in -p 1,2 or -p "$(pgrep -x NAME)" with the quotes`},
		{[]string{"list", "-p", "1", "2"}, "as in -p 1,2"},
		{[]string{"list", "http://localhost:6060/debug/probes/", "-v"}, "-v shows the sites of files"},
		{[]string{"list", "http://localhost:6060/debug/probes/", "-p", "1"}, "list takes one of"},
		{[]string{"hist", "http://localhost:6060/", "a:b"}, "hist takes a SPEC and an expression"},
		{[]string{"trace", "http://localhost:6060/", "-a"}, "an address cannot be combined with"},
		{[]string{"count", "http://localhost:6060/", "a:b", "-p", "1"}, "an address cannot be combined with -p, -a, --via, --wait, --budget or --from"},
		{[]string{"stack", "--from", "x", "a:b"}, "stack needs the kernel, because recordings have no stacks"},
		{[]string{"trace", "--from", "x", "-p", "1", "a:b"}, "--from cannot be combined with"},
		{[]string{"count", "--from", "x", "-a", "a:b"}, "--from cannot be combined with"},
		{[]string{"latency", "--from", "x", "-p", "1", "a:b"}, "--from cannot be combined with"},
		{[]string{"trace", "--follow", "-p", "1", "a:b"}, "--follow is for recordings"},
		{[]string{"trace", "--from", "x", "file:a:b"}, "has a FILE, but recordings have"},
		{[]string{"record", "-p", "1", "a:b"}, "give -O FILE"},
		{[]string{"stack", "https://host/", "a:b"}, "stack does not read events from a page, such as the one at https://host/: count, hist, latency, list, top, trace and tree do"},
		{append(trace, "-n", "-1"), `-n takes a whole number that is not negative, not "-1"`},
		{append(trace, "-n", "99999999999999999999"), "-n takes a number, but 99999999999999999999 is too large"},
		{append(trace, "-d", "10"), "-d takes a duration, but 10 has no unit: give 10s for seconds"},
		{append(trace, "-d", "1d"), `-d takes a duration such as 10s, 500ms or 1m30s, not "1d"`},
		{append(trace, "-d", "0"), "a duration of 0 would count nothing"},
		{append(trace, "--strlen", "x"), `--strlen takes a whole number, not "x"`},
		{append(trace, "-a=maybe"), `-a is true or false, not "maybe"`},
		{append(trace, "-o", "xml"), `-o takes text, json, csv, chrome or perfetto, not "xml"`},
		{append(trace, "-z"), "there is no flag -z: see stapsdt trace --help"},
		{append(trace, "--nope=1"), "there is no flag --nope: see stapsdt trace --help"},
		{append(trace, "-n"), "-n needs a value: see stapsdt trace --help"},
		{append(trace, "-w", "nanoseconds > 1d"), "1d is neither a number nor a duration such as 1ms or 2.5s"},
		{append(trace, "--show", ""), "the expression is empty"},
		{[]string{"count", "-p", me, "a:b", "-i", "1"}, "-i takes a duration, but 1 has no unit"},
		{[]string{"count", "-p", me, "a:b", "--by", "a,,b"}, "an operand is missing before ,"},
		{[]string{"stack", "-p", me, "a:b", "-n", "-1"}, "-n -1 is negative"},
		{[]string{"stack", "-p", me, "a:b", "--by", "'x"}, "the closing quote ' is missing"},
		{[]string{"hist", "-p", me, "a:b", "c", "--linear", "0:10"}, "--linear 0:10 is not LOW:HIGH:STEP"},
		{[]string{"hist", "-p", me, "a:b", "c", "--linear", "0:1d:1"}, `"1d" is neither an integer nor a duration`},
		{[]string{"hist", "-p", me, "a:b", "c", "--linear", "10:0:1"}, "the upper bound must be above the lower one"},
		{[]string{"trace", "http://[::1", "a:b"}, "the address is not a URL"},
		{[]string{"trace", "http://x:y/"}, "the address is not a URL"},
		{[]string{"clean", "--older", "1"}, "--older takes a duration, but 1 has no unit"},
		{[]string{"clean", "-a", "/tmp"}, "either -a or DIRECTORY"},
		{[]string{"clean", "/dev/null"}, "is not a directory"},
		{[]string{"clean", "--older", "-1h"}, "is negative"},
		{[]string{"export", "-c", "x", "--listen", "9964"}, "--listen takes HOST:PORT or :PORT, such as localhost:9964 or :9964"},
		{[]string{"export", "-c", "x", "--listen", ":99999"}, "--listen takes HOST:PORT"},
		{[]string{"export", "-c", "x", "--otlp", "localhost:4318"}, `the endpoint "localhost:4318" is not a URL such as http://host:4318`},
		{[]string{"export", "-c", "x", "--otlp", "http://:4318"}, "is not a URL such as"},
		{[]string{"export", "-c", "x", "--otlp", "http://u:secret@h:x/"}, "the endpoint is not a URL such as"},
		{[]string{"generate"}, "generate takes one file in D"},
		{[]string{"generate", "-"}, "use --out FILE"},
		{[]string{"generate", "x.d", "--package", "a-b"}, `"a-b" is not a valid package name`},
	} {
		got := refused(t, slices.Clone(c.args)...)
		assert.Contains(t, got, c.want, c.args)
		assert.NotContains(t, got, "secret", "%q: a password is shown", c.args)
	}
}

// TestFunctionFlag: a flag with a function is refused as a bool is, or for the function's own reason.
func TestFunctionFlag(t *testing.T) {
	for arg, want := range map[string]string{
		"--half=x": `--half is true or false, not "x"`, "--half": "--half excludes --whole",
	} {
		c := &cobra.Command{}
		c.Flags().BoolFunc("half", "", func(text string) error {
			if is, err := strconv.ParseBool(text); !is {
				return err
			}
			return errors.New("excludes --whole")
		})
		require.ErrorContains(t, flagError(c, c.ParseFlags([]string{arg})), want)
	}
}

// TestPIDs: -p takes what pgrep prints.
func TestPIDs(t *testing.T) {
	for _, args := range [][]string{{"-p", "1,22"}, {"-p", "1\n22\n"}, {"-p", " 1 22"}, {"-p", "1", "-p", "22"}, {"--pid=1,22,1"}} {
		var target query.Target
		c := &cobra.Command{}
		targetFlags(c, &target)
		err := c.ParseFlags(args)
		if assert.NoError(t, err, args) {
			assert.Equal(t, []int{1, 22}, target.PIDs, args)
		}
	}
}

// TestNames: -p takes the name of a process only if no other has it.
func TestNames(t *testing.T) {
	const name = "a-name-that-the-kernel-cuts"
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	content, err := os.ReadFile(sleep)
	require.NoError(t, err)
	var pids []int
	for range 2 {
		program := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(program, content, 0o700))
		cmd := exec.Command(program, "1000")
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		pids = append(pids, cmd.Process.Pid)
	}
	want := fmt.Sprintf("-p is not unique: 2 processes are called %q, with the PIDs %d,%d", name, pids[0], pids[1])
	require.Contains(t, refused(t, "trace", "-p", name, "a:b"), want)
	require.Contains(t, refused(t, "list", name), "there is no file "+name+"; -p "+name+" lists the probes of a process")
	settle := func(flags ...string) (target query.Target) {
		c := &cobra.Command{}
		targetFlags(c, &target)
		require.NoError(t, c.ParseFlags(flags))
		require.NoError(t, settleTarget(c))
		return target
	}
	slices.Sort(pids)
	for _, flags := range [][]string{{"-a", "-p", name}, {"-p", "a-name-that-*", "-a"}, {"-p", "a-name-that-*"}} {
		got := settle(flags...)
		slices.Sort(got.PIDs)
		require.Equal(t, query.Target{PIDs: pids}, got, "a verb that looks once takes those of now")
	}
	for _, numbers := range []string{"1," + name, "1 22"} {
		require.Contains(t, refused(t, "trace", "-a", "-p", numbers, "a:b"), "for names only")
	}
	require.Contains(t, refused(t, "trace", "-a", "-p", "a-name[", "a:b"), "takes the name of a process with *")
}

// TestOddNames: -p takes a name with spaces, commas and slashes, and before its parts.
func TestOddNames(t *testing.T) {
	called := func(name string) int {
		cmd := exec.Command("sh", "-c", `printf %s "$1" >/proc/$$/comm; echo named; read line`, "sh", name)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			in.Close()
			_ = cmd.Wait()
		})
		_, err = out.Read(make([]byte, 6))
		require.NoError(t, err)
		return cmd.Process.Pid
	}
	take := func(text string) (query.Target, error) {
		var target query.Target
		list := newProcessList(&target)
		err := list.Set(text)
		return target, cmp.Or(err, *list.err)
	}
	here := hasPods
	t.Cleanup(func() { hasPods = here })
	hasPods = func() bool { return false } // whatever this machine is
	names := []string{"odd words", "odd, worse", "odd/worst", "odd", "odd 2"}
	for _, name := range names {
		pid := called(name)
		got, err := take(name)
		require.NoError(t, err, name)
		require.Equal(t, query.Target{PIDs: []int{pid}}, got, name)
	}
	got, err := take("odd,odd/worst 1")
	require.NoError(t, err)
	require.Len(t, got.PIDs, 3)
	called("odd words")
	_, err = take("odd words")
	require.ErrorContains(t, err, `2 processes are called "odd words"`)
	got, err = take("odd [wv]*ds")
	require.NoError(t, err)
	require.Len(t, got.PIDs, 2, "a pattern selects all")
	got, err = take("od?,odd 2")
	require.NoError(t, err)
	require.Len(t, got.PIDs, 2)
	_, err = take("odd*nothing")
	require.EqualError(t, err, `no such process: none is called "odd*nothing"`)
	_, err = take("odd[")
	require.EqualError(t, err, "takes the name of a process with *, ? and [a-z], not odd[")
	_, err = take("odd nothing")
	require.EqualError(t, err, `no such process: none is called "nothing", nor "odd nothing"`)
	got, err = take("odd/pod")
	require.NoError(t, err)
	require.Equal(t, "odd/pod", got.Pods[0].String())
	hasPods = func() bool { return true }
	got, err = take("odd/worst")
	require.NoError(t, err)
	require.Equal(t, "odd/worst", got.Pods[0].String(), "on a node, that is a pod")
}
