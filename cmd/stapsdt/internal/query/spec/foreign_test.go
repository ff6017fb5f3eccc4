package spec

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestForeign: the error for a text of another tracer, or without quotes, gives what to type.
func TestForeign(t *testing.T) {
	for text, want := range map[string]string{
		"usdt:*:myapp:request__done":           `"usdt:*:myapp:request__done" is in the notation of bpftrace: give myapp:request__done`,
		"usdt:myapp:request__done":             "notation of bpftrace: give myapp:request__done",
		"usdt:/bin/x:myapp:request__done":      "give /bin/x:myapp:request__done",
		"usdt:/bin/x:request__done":            "give '/bin/x:*:request__done'",
		"usdt:/bin/x::request__*":              "give '/bin/x:*:request__*'",
		"U:*:a:b":                              "notation of bpftrace: give a:b",
		"u:/bin/x:a:b":                         "notation of bcc: give /bin/x:a:b",
		"u:./x:main.f":                         "give ./x:go:main.f",
		`uprobe:/bin/x:"main.f"`:               "notation of bpftrace: give /bin/x:go:main.f",
		"uretprobe:/bin/x:main.(*T).f":         "give '/bin/x:go:main.(*T).f:return'",
		"p:/bin/x:main.f":                      "notation of bcc: give /bin/x:go:main.f",
		"r::main.f":                            "give go:main.f:return",
		"myapp*:::request-done":                "notation of DTrace: give 'myapp*:request__done'",
		"myapp$target:::request-done":          "give myapp:request__done",
		"%sdt_myapp:request__done":             "notation of perf: give myapp:request__done",
		`process("x").mark("b")`:               "notation of SystemTap: give '*:b'",
		`process("x").provider("a").mark("b")`: "give a:b",
		"request__done":                        `"request__done" is not [FILE:]PROVIDER:PROBE: for any provider, give '*:request__done'`,
		"myapp.request__done":                  "PROVIDER:PROBE: give myapp:request__done",
		"main.handle":                          "for a function of a Go program, give go:main.handle",
		"net/http.(*Server).Serve":             "give 'go:net/http.(*Server).Serve'",
		"shop.checkout":                        "give shop:checkout, or for a function of a Go program go:shop.checkout",
		"=":                                    "an expression with spaces needs quotes",
		"myapp":                                "for any provider, give '*:myapp', or for all probes of a provider 'myapp:*'",
		"404":                                  "needs quotes",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want)
	}
	// A file of the name is the FILE.
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("u", nil, 0o600))
	got, err := Parse("u:a:b")
	require.NoError(t, err)
	require.Equal(t, "u", got.File)
	got, err = Parse("p:b")
	require.NoError(t, err)
	require.Equal(t, "p", got.Provider)
}
