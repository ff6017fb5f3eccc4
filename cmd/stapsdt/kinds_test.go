//go:build linux && (amd64 || arm64)

package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf/features"
	"github.com/stretchr/testify/require"
)

type (
	integers struct {
		A int8
		B int16
		C int32
		D int64
		E int
		F uint8
		G uint16
		H uint32
		I uint64
		J uint
		K uintptr
		L bool
	}
	others struct {
		M float32
		N float64
		O string
		P []byte
		Q time.Duration
		R unsafe.Pointer
		S *struct{ n int }
		T level
		U time.Time
	}
	level int16
)

var somewhere struct{ n int }

// kinds are values at the ends of their types, and how every verb shows them: as text and as JSON.
var kinds = []struct {
	integers integers
	others   others
	text     [2]string
	json     [2]string
}{
	{
		integers{
			math.MinInt8, math.MinInt16, math.MinInt32, math.MinInt64, math.MinInt,
			math.MaxUint8, math.MaxUint16, math.MaxUint32, math.MaxUint64, math.MaxUint, math.MaxUint, true,
		},
		others{
			0.1, 0.1, "a \"text\"\n", []byte("bytes"), 90 * time.Second,
			unsafe.Pointer(&somewhere), &somewhere, -5,
			time.Date(2026, 1, 2, 16, 4, 5, 123456789, time.FixedZone("CET", 3600)),
		},
		[2]string{
			"a=-128 b=-32768 c=-2147483648 d=-9223372036854775808 e=-9223372036854775808 f=255 g=65535 h=4294967295 " +
				"i=18446744073709551615 j=18446744073709551615 k=18446744073709551615 l=true",
			`m=0.1 n=0.1 o="a \"text\"\n" p="bytes" q=1m30s r=ADDRESS s=ADDRESS t=-5 u=2026-01-02T15:04:05.123456789Z`,
		},
		[2]string{
			`{"a":-128,"b":-32768,"c":-2147483648,"d":-9223372036854775808,"e":-9223372036854775808,"f":255,"g":65535,` +
				`"h":4294967295,"i":18446744073709551615,"j":18446744073709551615,"k":18446744073709551615,"l":true}`,
			`{"m":0.1,"n":0.1,"o":"a \"text\"\n","p":"bytes","q":90000000000,"r":"ADDRESS","s":"ADDRESS","t":-5,"u":"2026-01-02T15:04:05.123456789Z"}`,
		},
	},
	{
		integers{},
		others{M: float32(math.NaN()), N: math.Inf(-1), Q: -1},
		[2]string{
			"a=0 b=0 c=0 d=0 e=0 f=0 g=0 h=0 i=0 j=0 k=0 l=false",
			`m=NaN n=-Inf o="" p="" q=-1ns r=0x0 s=0x0 t=0 u=0001-01-01T00:00:00Z`,
		},
		[2]string{
			`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":false}`,
			`{"m":"NaN","n":"-Inf","o":"","p":"","q":-1,"r":"0x0","s":"0x0","t":0,"u":"0001-01-01T00:00:00Z"}`,
		},
	},
}

// TestKinds: a value of any kind is shown the same, whichever source delivers it, in text and as JSON, as an argument, as an
// expression and as a key.
func TestKinds(t *testing.T) {
	provider := stapsdt.NewProvider("kinds")
	one := stapsdt.NewProbeOf[integers](provider, "integers")
	two := stapsdt.NewProbeOf[others](provider, "others")
	require.NoError(t, provider.Load())
	defer provider.Close()
	fired := map[stapsdt.Kind]bool{}
	for _, p := range provider.Probes() {
		for _, a := range p.Args() {
			fired[a.Kind] = true
		}
	}
	for k := stapsdt.Kind(1); int(k) < len(kind.Rows); k++ {
		require.True(t, fired[k], "no argument is a %v", k)
	}
	fire := func() {
		for i := range kinds {
			one.Fire(kinds[i].integers)
			two.Fire(kinds[i].others)
		}
	}

	file, page := openSources(t, fire, provider)
	pid := strconv.Itoa(os.Getpid())
	sources := map[string][]string{"file": {"--from", file}, "socket": {"-p", pid, "--via", "socket"}, "page": {page}}
	// Other kernels patch a site before it has the program.
	if os.Getuid() == 0 && features.HaveBPFLinkUprobeMulti() == nil {
		sources["kernel"] = []string{"-p", pid, "--via", "kernel"}
	}
	address := strings.NewReplacer("ADDRESS", fmt.Sprintf("%p", &somewhere))
	names := [2]string{"a,b,c,d,e,f,g,h,i,j,k,l", "m,n,o,p,q,r,s,t,u"}
	for name, source := range sources {
		for p, probe := range []string{"kinds:integers", "kinds:others"} {
			var text, object, keys []string
			for i := range kinds {
				text = append(text, address.Replace(kinds[i].text[p]))
				object = append(object, address.Replace(kinds[i].json[p]))
			}
			for _, row := range text { // without the names
				keys = append(keys, regexp.MustCompile(`\b\w=`).ReplaceAllString(row, ""))
			}
			run := func(verb string, args ...string) string {
				args = append(append(append([]string{verb}, source...), probe), args...)
				if name == "file" {
					return runSource(t, args, nil, nil)
				}
				is := provider.Probes()[p].Enabled
				idle := func() bool { return !is() }
				require.Eventually(t, idle, testenv.Patience, time.Millisecond, "the one before still watches")
				return runSource(t, args, func(string) bool { return is() }, fire)
			}
			var got []string
			for line := range strings.Lines(run("trace")) {
				if _, values, ok := strings.Cut(line, probe+" "); ok {
					got = append(got, strings.TrimSpace(values))
				}
			}
			require.Equal(t, text, got, name)
			for _, show := range [][]string{nil, {"--show", names[p]}} {
				got = nil
				for line := range strings.Lines(run("trace", append(show, "-o", "json")...)) {
					var event struct{ Args json.RawMessage }
					require.NoError(t, json.Unmarshal([]byte(line), &event), line)
					got = append(got, string(event.Args))
				}
				require.Equal(t, object, got, "%s %v", name, show)
			}
			table, err := csv.NewReader(strings.NewReader(run("trace", "-o", "csv"))).ReadAll()
			require.NoError(t, err)
			require.Len(t, table, 1+len(object), name)
			columns := strings.Split(names[p], ",")
			for i, row := range table {
				values := row[len(row)-len(columns):]
				if i == 0 {
					require.Equal(t, columns, values, name)
					continue
				}
				want := map[string]any{}
				d := json.NewDecoder(strings.NewReader(object[i-1]))
				d.UseNumber()
				require.NoError(t, d.Decode(&want))
				for j, column := range columns {
					require.Equal(t, fmt.Sprint(want[column]), values[j], "%s %s", name, column)
				}
			}
			got = nil
			for _, line := range strings.Split(run("count", "--by", names[p]), "\n") {
				if _, values, ok := strings.Cut(line, probe+" "); ok {
					got = append(got, regexp.MustCompile(` {2,}`).ReplaceAllString(strings.TrimSpace(values), " "))
				}
			}
			slices.Sort(got)
			slices.Sort(keys)
			require.Equal(t, keys, got, name)
		}
	}
}
