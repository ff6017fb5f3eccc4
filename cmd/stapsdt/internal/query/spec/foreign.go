package spec

import (
	"fmt"
	"os"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// notations maps the words with which other tracers begin the names of probes to the tracers.
var notations = map[string]struct {
	tracer        string
	call, returns bool // of a function
}{
	"usdt": {tracer: "bpftrace"}, "U": {tracer: "bpftrace"}, "u": {tracer: "bcc"},
	"uprobe": {tracer: "bpftrace", call: true}, "p": {tracer: "bcc", call: true},
	"uretprobe": {tracer: "bpftrace", call: true, returns: true},
	"ur":        {tracer: "bpftrace", call: true, returns: true},
	"r":         {tracer: "bcc", call: true, returns: true},
}

var (
	markOfStap     = lazyregexp.New(`\.mark\("([^"]+)"\)`)
	providerOfStap = lazyregexp.New(`\.provider\("([^"]+)"\)`)
)

// checkNotation returns an error if a text names a probe in the notation of another tracer.
func checkNotation(text string) error {
	tracer, give := "", ""
	word, rest, _ := strings.Cut(text, ":")
	other, known := notations[word]
	switch provider, name, isDTrace := strings.Cut(text, ":::"); {
	case known && strings.Contains(rest, ":") && !isFile(word):
		tracer = other.tracer
		if give = probeOf(rest); other.call || word == "u" && isFunction(rest) {
			give = functionOf(rest, other.returns)
		}
	case isDTrace:
		provider = strings.TrimSuffix(strings.TrimRight(provider, "0123456789"), "$target")
		tracer, give = "DTrace", orAny(provider)+":"+strings.ReplaceAll(orAny(name), "-", "__")
	case strings.HasPrefix(text, "%sdt_"):
		tracer, give = "perf", strings.TrimPrefix(text, "%sdt_")
	case markOfStap().MatchString(text):
		tracer, give = "SystemTap", "*"
		if found := providerOfStap().FindStringSubmatch(text); found != nil {
			give = found[1]
		}
		give += ":" + markOfStap().FindStringSubmatch(text)[1]
	default:
		return nil
	}
	return fmt.Errorf("%q is in the notation of %s: give %s", text, tracer, quoted(give))
}

// isFile reports whether a file has a name, so that the name can be the FILE of a spec.
func isFile(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// probeOf returns the spec of a probe that other tracers write as FILE:PROVIDER:PROBE, FILE:PROBE
// or PROVIDER:PROBE.
func probeOf(text string) string {
	place, name, ok := cutLast(text)
	if !ok {
		return "*:" + text
	}
	file, provider, ok := cutLast(place)
	if !ok {
		file, provider = "", place
		if strings.Contains(place, "/") {
			file, provider = place, ""
		}
	}
	return inFile(file, orAny(provider)+":"+name)
}

// functionOf returns the spec of a function that other tracers write as FILE:FUNCTION.
func functionOf(text string, returns bool) string {
	file, name, ok := cutLast(text)
	if !ok {
		file, name = "", text
	}
	give := FunctionProvider + ":" + strings.Trim(name, `"`)
	if returns {
		give += ReturnSuffix
	}
	return inFile(strings.TrimRight(file, ":"), give)
}

// inFile returns a spec with its FILE, unless that is any file.
func inFile(file, text string) string {
	if file == "" || file == "*" {
		return text
	}
	return file + ":" + text
}

func orAny(name string) string {
	if name == "" {
		return "*"
	}
	return name
}

// isFunction reports whether the last part of a text is the name of a Go function with its package.
func isFunction(text string) bool {
	_, name, _ := cutLast(text)
	return strings.Contains(name, ".")
}

// quoted returns a spec with the quotes that a shell needs.
func quoted(text string) string {
	if strings.ContainsAny(text, `*?[]()" $`) {
		return "'" + text + "'"
	}
	return text
}

// operator matches what a shell makes of an expression without quotes.
var operator = lazyregexp.New(`^([=!<>~&|+/%-]+|[0-9.]+|"[^"]*")$`)

// noColon returns the error for a text that has no colon.
func noColon(text string) error {
	what := fmt.Sprintf("for any provider, give '*:%s'", text)
	if !strings.ContainsAny(text, "_*") {
		what += fmt.Sprintf(", or for all probes of a provider '%s:*'", text)
	}
	switch before, after, dotted := strings.Cut(text, "."); {
	case operator().MatchString(text):
		what = "an expression with spaces needs quotes, as in -w 'status == 404'"
	case dotted && strings.Contains(text, "__"):
		what = "give " + quoted(before+":"+after)
	case strings.HasPrefix(text, "main."), dotted && strings.ContainsAny(text, "(/"):
		what = "for a function of a Go program, give " + quoted("go:"+text)
	case dotted && before != "" && after != "":
		what = fmt.Sprintf("give %s, or for a function of a Go program %s", quoted(before+":"+after), quoted("go:"+text))
	}
	return fmt.Errorf("%q is not [FILE:]PROVIDER:PROBE: %s", text, what)
}
