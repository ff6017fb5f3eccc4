// Package spec parses the specifications of probes on command lines, and formats the signatures of
// probes.
package spec

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	// FunctionProvider is the provider of the functions of Go programs, which are probes without
	// notes.
	FunctionProvider = "go"
	// ReturnSuffix follows the name of a function in the name of its returns.
	ReturnSuffix = ":return"
)

// parseFunctions reads a spec of functions, [FILE:]go:PATTERN or [FILE:]go:PATTERN:return, or of
// lines, [FILE:]go:PATTERN:LINE, and reports whether the text is one. The names of functions have
// no colons and no escapes, and neither has the pattern.
func (s *Spec) parseFunctions(text string) bool {
	rest, returns := strings.CutSuffix(text, ReturnSuffix)
	place, name, _ := cutLast(rest)
	if before, what, ok := cutLast(place); ok {
		_, provider, _ := cutLast(":" + before)
		if lines, isLines := parseLines(name); isLines && provider == FunctionProvider {
			s.Lines, place, name = lines, before, what
		}
	}
	file, provider, named := cutLast(place)
	if !named {
		file, provider = "", place
	}
	if provider != FunctionProvider {
		return false
	}
	if s.File, s.Provider, s.Probe = file, provider, text[len(place)+1:]; s.IsLine() {
		s.Probe = name + ":" + s.Lines.String()
	}
	s.Functions, s.Pattern, s.Returns = true, Pattern(Unescape(name)), returns
	return true
}

// Spec selects probes: [FILE:]PROVIDER:PROBE. The provider and the probe may be globs, with *, ?
// and [a-z]. As [FILE:]go:PATTERN it selects calls of functions of Go programs, as
// [FILE:]go:PATTERN:return their returns, and as [FILE:]go:PATTERN:LINE the statements of a line.
type Spec struct {
	File            string // "" means the files of the selected processes
	Provider, Probe string
	// Functions means that the spec selects the functions of Pattern, their returns, or Lines of
	// them or of the file of that name.
	Functions bool
	Pattern   Pattern
	Returns   bool
	Lines     Lines
	// Executable is a pattern for the names, without directories, of the files in which the
	// functions are looked for, or "" for all.
	Executable string

	text string
}

// Any selects every probe.
var Any = Spec{Provider: "*", Probe: "*", text: "*:*"}

// IsFunction reports whether a text has the form of a Spec of functions.
func IsFunction(text string) bool { return new(Spec).parseFunctions(text) }

// Parse reads a Spec. The file may contain colons.
func Parse(text string) (Spec, error) {
	s := Spec{text: text}
	if err := checkNotation(text); err != nil {
		return s, err
	}
	if s.parseFunctions(text) {
		if s.Pattern == "" {
			return s, fmt.Errorf("%q names no function: use go:PATTERN, such as 'go:main.*'", text)
		}
		return s, cmp.Or(s.checkFile(), s.checkLines())
	}
	rest, probe, ok := cutLast(text)
	if !ok {
		return s, noColon(text)
	}
	s.Probe = probe
	s.Provider = rest
	if file, provider, ok := cutLast(rest); ok {
		s.File, s.Provider = file, provider
		if err := s.checkFile(); err != nil {
			return s, err
		}
	}
	for _, glob := range []string{s.Provider, s.Probe} {
		if glob == "" {
			return s, fmt.Errorf("%q is not [FILE:]PROVIDER:PROBE: use * for any name", text)
		}
		if _, err := path.Match(glob, ""); errors.Is(err, path.ErrBadPattern) {
			return s, fmt.Errorf("%q in %q is not a valid pattern", glob, text)
		}
	}
	return s, nil
}

// checkFile returns an error if the text begins with a colon.
func (s *Spec) checkFile() error {
	if strings.HasPrefix(s.text, ":") {
		return fmt.Errorf("%q has an empty FILE", s.text)
	}
	return nil
}

// checkLines returns an error if the spec has lines that it cannot have.
func (s *Spec) checkLines() error {
	switch {
	case !s.IsLine() && s.Pattern.IsSource():
		return fmt.Errorf("%q names a file of the source: add a line, as in 'go:%s:1'", s.text, s.Pattern)
	case !s.IsLine():
		return nil
	case s.Returns:
		return fmt.Errorf("%q: lines have no returns: leave out %s", s.text, ReturnSuffix)
	case s.Pattern.IsGlob():
		return fmt.Errorf("%q: lines are those of one file or function: a name with * or ? has none", s.text)
	}
	return s.Lines.check(s.text)
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// Match reports whether the spec selects a probe, regardless of its file.
func (s Spec) Match(provider, probe string) bool {
	if s.IsLine() {
		return provider == FunctionProvider && probe == s.Probe
	}
	if s.Functions {
		name, returns := strings.CutSuffix(probe, ReturnSuffix)
		return provider == FunctionProvider && returns == s.Returns && s.Pattern.Match(name)
	}
	return match(s.Provider, provider) && match(s.Probe, probe)
}

// MatchProvider reports whether the spec selects probes of a provider.
func (s Spec) MatchProvider(provider string) bool {
	return !s.Functions && match(s.Provider, provider)
}

// Providers returns the providers of the probes that specs select, none for functions alone. ok is
// false if they may select others, because they have wildcards or cannot be parsed.
func Providers(specs []string) (names []string, ok bool) {
	for _, text := range specs {
		s, err := Parse(text)
		if err != nil || strings.ContainsAny(s.Provider, `*?[\,/`) && !s.Functions {
			return nil, false
		}
		if !s.Functions {
			names = append(names, s.Provider)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), len(specs) > 0
}

// match is path.Match, but treats the slash like any other character.
func match(pattern, name string) bool {
	plain := func(text string) string { return strings.ReplaceAll(text, "/", "\x00") }
	ok, err := path.Match(plain(pattern), plain(name))
	return ok && err == nil
}

// String returns the string that was parsed.
func (s Spec) String() string { return s.text }

// Calls returns the text of the spec of the calls whose returns a spec selects.
func (s Spec) Calls() string { return strings.TrimSuffix(s.text, ReturnSuffix) }

// Suffixed returns the spec of the probes whose names also have a suffix. ReturnSuffix makes a spec
// of calls one of returns.
func (s Spec) Suffixed(suffix string) Spec {
	s.Probe, s.text = s.Probe+suffix, s.text+suffix
	s.Returns = s.Returns || s.Functions && suffix == ReturnSuffix
	return s
}

// IsZero reports whether there is no spec.
func (s Spec) IsZero() bool { return s == Spec{} }

// IsAddress reports whether an argument is the address of a page and not a spec.
func IsAddress(word string) bool {
	return strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://")
}
