//go:build linux && (amd64 || arm64)

package kernels

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// openValues is a file with the values of the kernel without lockdown.
const openValues = "/values.json"

// valuesPrefix begins the line with the values of a kernel, for the guests that follow.
const valuesPrefix = "lockdown values: "

// parcel is what the operations of the shop handle.
type parcel struct {
	Customer string
	Price    int64
}

// parcels are the events that runShop fires.
func parcels() (all []parcel) {
	for i := range int64(12) {
		all = append(all, parcel{fmt.Sprint("customer-", i%4), 100 * i})
	}
	return all
}

//go:noinline
func quote(customer string, price int64) (text string) { return fmt.Sprint(customer, " pays ", price) }

// runShop fires the same events, and calls the same functions, for each line.
func runShop([]string) {
	p := stapsdt.NewProvider("guestshop")
	order := stapsdt.NewProbe2[string, int64](p, "order", "customer", "price")
	deliver := span.NewOperation[parcel, struct{ Text string }](p, "deliver")
	pack := span.NewOperation[parcel, struct{}](p, "pack")
	if err := p.Load(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	tracetest.EachLine(func(line string) {
		if line == "enabled" {
			fmt.Println("enabled", order.Enabled())
			return
		}
		for _, one := range parcels() {
			order.Fire(one.Customer, one.Price)
			ctx, delivery := deliver.Start(context.Background(), one)
			_, packing := pack.Start(ctx, one)
			var err error
			if one.Price == 300 {
				err = errors.New("out of " + one.Customer)
			}
			packing.End(struct{}{}, err)
			delivery.End(struct{ Text string }{quote(one.Customer, one.Price)}, nil)
		}
		fmt.Println("fired")
	})
}

// question is a command line of a verb.
type question struct {
	name string
	args []string
	// refused means that it needs the kernel's memory.
	refused bool
	// left is a label that only the kernel's memory gives.
	left string
}

const quoteFunction = "go:github.com/go-stapsdt/stapsdt/internal/test/kernels.quote"

var questions = []question{
	{name: "list", args: []string{"list", "-o", "json"}},
	{name: "trace", args: []string{"trace", "-v", "-o", "json", "guestshop:order"}},
	{name: "trace -w", args: []string{"trace", "-v", "-o", "json", "guestshop:order", "-w", `strings.HasSuffix(customer, "-3") || price == 0`}},
	{name: "trace --show", args: []string{"trace", "-v", "-o", "json", "guestshop:order", "--show", "customer,comm,uid"}},
	{name: "trace --show executable", args: []string{"trace", "-v", "-o", "json", "guestshop:order", "--show", "customer,executable"}},
	{name: "trace -w executable", args: []string{"trace", "-v", "-o", "json", "guestshop:order", "-w", `executable != ""`}, refused: true},
	{name: "count", args: []string{"count", "-v", "-o", "json", "guestshop:order", "--by", "customer", "--sum", "price"}},
	{name: "count --by executable", args: []string{"count", "-v", "-o", "json", "guestshop:order", "--by", "executable"}, refused: true},
	{name: "hist", args: []string{"hist", "-v", "-o", "json", "guestshop:order", "price", "--by", "customer"}},
	{name: "latency", args: []string{"latency", "-v", "-o", "json", "guestshop:deliver", "--by", "customer,text"}},
	{name: "stack", args: []string{"stack", "-v", "-o", "folded", "guestshop:order", "--by", "customer"}},
	{name: "top", args: []string{"top", "-v", "-o", "json", "-i", "1m", "guestshop:*", "--by", "customer"}},
	{name: "tree", args: []string{"tree", "-v", "-o", "json", "guestshop:*"}},
	{name: "timeline", args: []string{"trace", "-v", "-o", "chrome", "guestshop:*", "-O", "FILE"}},
	{name: "record", args: []string{"record", "-v", "guestshop:*", "-O", "FILE"}},
	{name: "functions", args: []string{"trace", "-v", "-o", "json", quoteFunction, quoteFunction + ":return"}},
	{name: "functions, count", args: []string{"count", "-v", "-o", "json", quoteFunction, "--by", "customer,price"}},
	{name: "functions, latency", args: []string{"latency", "-v", "-o", "json", quoteFunction, "--by", "customer"}},
	{name: "export", left: `executable="init",`},
	{name: "export, spans"},
	{name: "functions, tree", args: []string{"tree", "-v", "-o", "json", quoteFunction}},
}

// TestLockdown compares what each verb prints with what it prints on the same kernel without lockdown. scripts/lib/lockdown.sh boots that
// kernel first, whose values are in openValues then.
func TestLockdown(t *testing.T) {
	mode := lockdownMode()
	if mode == "" {
		t.Skip("this machine has no lockdown to compare")
	}
	t.Attr("kernel", release())
	var open map[string][]string
	if mode != "none" {
		content := tracetest.Must(os.ReadFile(openValues))(t)
		require.NoError(t, json.Unmarshal(content, &open))
		require.Len(t, open, len(questions))
	}
	values := map[string][]string{}
	for _, q := range questions {
		t.Run(q.name, func(t *testing.T) {
			result := "the same"
			got, err := q.run(t)
			if q.refused && mode == confidentiality {
				result = "refused"
				require.ErrorContains(t, err, lockedDown)
				require.Empty(t, got)
			} else {
				require.NoError(t, err)
				require.NotEmpty(t, got)
				values[q.name] = got
			}
			want := open[q.name]
			if q.left != "" && mode == confidentiality {
				result = "the same, without the label `executable`"
				want = strings.Split(strings.ReplaceAll(strings.Join(want, "\n"), q.left, ""), "\n")
				require.NotEqual(t, want, open[q.name])
			}
			if mode != "none" && result != "refused" {
				require.Equal(t, want, got)
			}
			fmt.Printf("lockdown: %s\t%s\n", q.name, result)
		})
	}
	doctor(t, mode)
	fmt.Printf("%s%s\n", valuesPrefix, tracetest.Must(json.Marshal(values))(t))
}

const confidentiality = "confidentiality"

// lockedDown is what the command says in this mode.
const lockedDown = "the kernel is locked down (lockdown=confidentiality)"

// doctor has the command find out whether the shop can be traced.
func doctor(t *testing.T, mode string) {
	out, err := exec.Command(tracetest.Stapsdt(t), "doctor", "-v", "-p", strconv.Itoa(startShop(t).PID()), "guestshop:order").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, mode == confidentiality, strings.Contains(string(out), "locked down (lockdown=confidentiality)"), "%s", out)
}

// lockdownMode returns the lockdown of the kernel, or "" if it cannot be locked down.
func lockdownMode() string {
	text, _ := os.ReadFile("/sys/kernel/security/lockdown") // such as "none [integrity] confidentiality"
	_, mode, _ := strings.Cut(string(text), "[")
	mode, _, _ = strings.Cut(mode, "]")
	return mode
}

// startShop starts the program that fires the parcels.
func startShop(t *testing.T) *tracetest.Process {
	tracetest.NeedUprobes(t)
	shop := tracetest.Child(t, "shop", tracetest.WithEnv("STAPSDT_DIR="+t.TempDir()))
	shop.Expect("ready", testenv.Patience)
	return shop
}

// run asks a question about the shop, and returns the answer without what differs from run to run.
func (q question) run(t *testing.T) ([]string, error) {
	switch q.name {
	case "export":
		return exportShop(t)
	case "export, spans":
		return exportSpans(t)
	}
	shop := startShop(t)
	file := filepath.Join(t.TempDir(), "file")
	args := append(slices.Clone(q.args), "-p", strconv.Itoa(shop.PID()))
	if i := slices.Index(args, "FILE"); i >= 0 {
		args[i] = file
	}
	command := tracetest.Command(t, exec.Command(tracetest.Stapsdt(t), args...))
	if q.args[0] != "list" {
		await(t, "the command to attach", command, func() bool {
			return command.Ended() || strings.Contains(command.Dump(), "of 1 process") || q.args[0] == "stack" && enabled(shop, "enabled")
		})
		shop.Say("fire")
		shop.Expect("fired", testenv.Patience)
		command.Signal(os.Interrupt)
	}
	if err := command.Wait(starting); err != nil {
		return nil, fmt.Errorf("%w: %s", err, command.Dump())
	}
	printed := strings.Join(command.Lines(), "\n")
	switch {
	case q.args[0] == "record":
		printed = string(tracetest.Must(exec.Command(tracetest.Stapsdt(t), "trace", "-o", "json", "--from", file).Output())(t))
	case slices.Contains(args, file):
		printed = string(tracetest.Must(os.ReadFile(file))(t))
	}
	return steady(printed, slices.Contains([]string{"latency", "top"}, q.args[0])), nil
}

// steady returns the lines without what differs from run to run, in order. If timed is true, it leaves out all that durations decide.
func steady(printed string, timed bool) (lines []string) {
	for line := range strings.Lines(printed) {
		line = strings.TrimRight(line, ",\n")
		var value any
		if json.Unmarshal([]byte(line), &value) == nil {
			content, _ := json.Marshal(without(value, timed))
			line = string(content)
		} else if strings.Contains(line, `"otherData"`) { // the end of a timeline
			continue
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// What differs from run to run: the values with these names, and the PIDs in the names of processes.
var (
	times     = regexp.MustCompile(`^(time|since|seconds|ts|dur|pid|tid|pids|cpu|rate|goroutine|id|parent|nanoseconds|own|part|start|file)$`)
	durations = regexp.MustCompile(`^(sum|average|min|max|p\d+|quantiles|buckets|longest|errors)$`)
	named     = regexp.MustCompile(`^init \d+$`)
)

func without(value any, timed bool) any {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(name string, _ any) bool { return times.MatchString(name) || timed && durations.MatchString(name) })
		for name := range value {
			value[name] = without(value[name], timed)
		}
	case []any:
		for i := range value {
			value[i] = without(value[i], timed)
		}
		if timed {
			slices.SortFunc(value, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	case string:
		return named.ReplaceAllString(value, "init")
	}
	return value
}

// shopRules have the default labels, among which is the executable.
const shopRules = `
metrics:
  - {name: orders_total, probe: "guestshop:order", counter: price, where: 'customer != "customer-0"', by: [customer]}
  - {name: deliver_seconds, start: "guestshop:deliver__start", end: "guestshop:deliver__end", duration: true, unit: seconds, by: [text]}
`

// exportShop returns the series of an exporter that count.
func exportShop(t *testing.T) (lines []string, err error) {
	shop := startShop(t)
	exporter := startExporter(t, shopRules, 1+2)
	shop.Say("fire")
	shop.Expect("fired", testenv.Patience)
	for _, line := range scrape(t, exporter) {
		if regexp.MustCompile(`^(orders_total|deliver_seconds_count)\{`).MatchString(line) {
			lines = append(lines, line)
		}
	}
	require.Equal(t, lockdownMode() == confidentiality, strings.Contains(exporter.Dump(), "the label executable is left out: "), exporter.Dump())
	return lines, nil
}

// exportSpans returns the spans that an exporter sends.
func exportSpans(t *testing.T) (lines []string, err error) {
	received := make(chan string, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" {
			return
		}
		var request tracecollector.ExportTraceServiceRequest
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(body)
		}
		content, err := io.ReadAll(body)
		if err = errors.Join(err, proto.Unmarshal(content, &request)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					received <- fmt.Sprint(s.Name, attributes(resource.Resource.Attributes), attributes(s.Attributes), s.Status.GetMessage())
				}
			}
		}
	}))
	defer collector.Close()
	shop := startShop(t)
	exporter := startExporter(t, `spans: [{probe: "guestshop:deliver", where: 'text != "customer-2 pays 200"'}]`, 2, "--otlp", collector.URL)
	shop.Say("fire")
	shop.Expect("fired", testenv.Patience)
	exporter.Signal(os.Interrupt) // what was fired is sent
	require.NoError(t, exporter.Wait(starting))
	close(received)
	for line := range received {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	require.Contains(t, fmt.Sprint(lines), "process.executable.name:init0")
	return lines, nil
}

// attributes returns the attributes without PIDs.
func attributes(all []*commonpb.KeyValue) map[string]string {
	shown := map[string]string{}
	for _, a := range all {
		if !strings.HasPrefix(a.Key, "host.") && a.Key != "process.pid" && a.Key != "service.instance.id" {
			shown[a.Key] = fmt.Sprint(a.Value.GetStringValue(), a.Value.GetIntValue())
		}
	}
	return shown
}
