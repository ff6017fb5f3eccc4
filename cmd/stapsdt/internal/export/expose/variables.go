//go:build linux

package expose

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
)

const (
	// prefix begins the names of all variables of OTLP.
	prefix = "OTEL_EXPORTER_OTLP_"
	// EndpointVariable has the endpoint for programs that are not told another one.
	EndpointVariable = prefix + "ENDPOINT"
)

// The values of METRICS_TEMPORALITY_PREFERENCE. preferLowMemory means deltas of what is counted
// here, and cumulative sums of what is read elsewhere, as the exporter's own processor time.
const (
	preferCumulative = "cumulative"
	preferDelta      = "delta"
	preferLowMemory  = "lowmemory"
)

// setting returns the value of an environment variable of OTLP for a signal, or for all signals.
func setting(signal, name string) string {
	return cmp.Or(os.Getenv(prefix+strings.ToUpper(signal)+"_"+name), os.Getenv(prefix+name))
}

// endpointOf returns the URL for a signal: that of its own variable, or a path below the endpoint.
func endpointOf(signal string, endpoint *url.URL) (*url.URL, error) {
	name := prefix + strings.ToUpper(signal) + "_ENDPOINT"
	text := os.Getenv(name)
	if text == "" {
		return endpoint.JoinPath("v1", signal), nil
	}
	u, err := parseEndpoint(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return u, nil
}

// choices are the variables with few values, by their names without the prefix and, if all signals
// have them, without the signal.
var choices = map[string]struct {
	values []string
	why    string // the others cannot be obeyed
}{
	"PROTOCOL":                       {[]string{"http/protobuf"}, "it sends protobuf over HTTP only"},
	"COMPRESSION":                    {[]string{"none", "gzip"}, "it compresses with gzip or not at all"},
	"METRICS_TEMPORALITY_PREFERENCE": {[]string{preferCumulative, preferDelta, preferLowMemory}, "there are cumulative, delta and lowmemory"},
	"METRICS_DEFAULT_HISTOGRAM_AGGREGATION": {
		[]string{"explicit_bucket_histogram"}, "each rule chooses its buckets, and has exponential ones with native: true",
	},
}

// others are the variables with any value. INSECURE is about gRPC alone.
var others = []string{"ENDPOINT", "HEADERS", "TIMEOUT", "CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY", "INSECURE"}

// checkVariables returns an error if a variable of OTLP asks for what is not possible, and
// complains of variables that it does not know. environ has NAME=VALUE, as os.Environ.
func checkVariables(environ []string, complain func(string)) error {
	for _, variable := range environ {
		full, value, _ := strings.Cut(variable, "=")
		name, ok := strings.CutPrefix(full, prefix)
		if !ok || value == "" {
			continue
		}
		signal, rest, _ := strings.Cut(name, "_")
		choice, known := choices[name]
		switch {
		case signal == "LOGS" || signal == "PROFILES": // for other programs
			continue
		case !known && (signal == "TRACES" || signal == "METRICS"):
			name = rest
			choice, known = choices[name]
		}
		switch {
		case known && !slices.Contains(choice.values, strings.ToLower(value)):
			return fmt.Errorf("%s=%q cannot be obeyed: %s", full, value, choice.why)
		case !known && !slices.Contains(others, name):
			complain(full + " is not known, and has no effect")
		}
	}
	return nil
}

// preference returns the temporality of metrics.
func preference() string {
	return cmp.Or(strings.ToLower(os.Getenv(prefix+"METRICS_TEMPORALITY_PREFERENCE")), preferCumulative)
}
