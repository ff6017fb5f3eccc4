//go:build linux

package rules

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// maxFile is the maximum size of a file in bytes.
const maxFile = 1 << 20

// Read reads a file of rules. Its errors are the same as for Parse. It does not wait for the writer
// of a named pipe.
func Read(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// mistakes are the errors in a file. They are a query.ErrUsage, unlike an error from reading it.
type mistakes []error

func (m mistakes) Error() string      { return errors.Join(m...).Error() }
func (m mistakes) Unwrap() []error    { return m }
func (mistakes) Is(target error) bool { return target == query.ErrUsage }

// maxErrors is the maximum number of errors that are reported at once.
const maxErrors = 20

// Parse parses a file of rules in YAML. The error joins one error for each problem, with the name
// of the file, the line and the column. If there are very many, it has only the first ones.
func Parse(name string, text []byte) (*File, error) {
	r := &reader{name: name, lines: strings.Split(string(text), "\n")}
	file := &File{}
	if root := r.document(text); root != nil {
		r.file(root, file)
	}
	if more := len(r.errs) - maxErrors; more > 1 {
		r.errs = append(r.errs[:maxErrors], fmt.Errorf("%s: %d more errors", name, more))
	}
	if len(r.errs) > 0 {
		return nil, mistakes(r.errs)
	}
	return file, nil
}

// document returns the only document of a file, or nil.
func (r *reader) document(text []byte) *yaml.Node {
	if len(text) > maxFile {
		r.errorAt(1, 1, "the file has more than %d bytes", maxFile)
		return nil
	}
	if r.unreadable(string(text)) {
		return nil
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			r.syntax(err)
			return nil
		}
		document = yaml.Node{}
	}
	if len(document.Content) == 0 || document.Content[0].ShortTag() == "!!null" {
		r.errorAt(1, 1, "there are no rules: give metrics or spans")
		return nil
	}
	if err := decoder.Decode(&second); err == nil {
		r.errorf(&second, "only one YAML document is allowed")
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
	}
	return document.Content[0]
}

// unreadable reports the first character that a file must not have. It returns whether there is
// one.
func (r *reader) unreadable(text string) bool {
	line, column := 1, 0
	for i, c := range text {
		column++
		switch {
		case c == '\n':
			line, column = line+1, 0
		case c == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			r.errorAt(line, column, "this is not UTF-8")
			return true
		case unicode.IsControl(c) && c != '\t' && c != '\r':
			r.errorAt(line, column, "control character %U is not allowed", c)
			return true
		}
	}
	return false
}

var (
	// yamlError matches an error of package yaml, which may name a line.
	yamlError = lazyregexp.New(`^yaml: (?:line (\d+): )?((?s:.*))$`)
	// fromZero matches the errors in which package yaml counts lines from 0.
	fromZero = lazyregexp.New(`^did not find expected (',' or|node content|key|'-' indicator|<)`)
	anchor   = lazyregexp.New(`^unknown anchor '(.*)' referenced$`)
)

// syntax reports an error of package yaml, which names no column.
func (r *reader) syntax(err error) {
	line, message := 1, err.Error()
	if found := yamlError().FindStringSubmatch(message); found != nil {
		line, _ = strconv.Atoi(found[1])
		message = found[2]
	}
	if fromZero().MatchString(message) {
		line++
	}
	line = min(max(line, 1), len(r.lines))
	text := r.lines[line-1]
	column := len(text) - len(strings.TrimLeft(text, " \t")) + 1
	if unknown := anchor().FindStringSubmatch(message); unknown != nil {
		line, column = r.find("*" + unknown[1])
	}
	r.errorAt(line, column, "this is not valid YAML: %s", message)
}

// find returns the first position of a string, or the beginning of the file.
func (r *reader) find(text string) (line, column int) {
	for i, l := range r.lines {
		if before, _, found := strings.Cut(l, text); found {
			return i + 1, utf8.RuneCountInString(before) + 1
		}
	}
	return 1, 1
}

func (r *reader) file(root *yaml.Node, file *File) {
	fields := r.mapping(root, "the file", "metrics", "spans", "budget")
	if fields == nil {
		return
	}
	r.budget(fields["budget"], file)
	if fields["metrics"] == nil && fields["spans"] == nil && len(r.errs) == 0 {
		r.errorf(root, "there are no rules: give metrics or spans")
	}
	named := map[string]*yaml.Node{}
	for _, n := range r.list(fields["metrics"], "metrics") {
		m, ok := r.metric(n, named)
		if ok {
			file.Metrics = append(file.Metrics, m)
		}
	}
	for _, n := range r.list(fields["spans"], "spans") {
		s, ok := r.span(n)
		if !ok {
			continue
		}
		for _, other := range file.Spans {
			if reflect.DeepEqual(s, other) {
				r.errorf(n, "duplicate rule for the spans of %s", s.Probe)
			}
		}
		file.Spans = append(file.Spans, s)
	}
}

// budget reads the share of the processor time that functions may take.
func (r *reader) budget(n *yaml.Node, file *File) {
	file.Budget = defaultBudget
	if n == nil {
		return
	}
	share, err := query.ParseShare(r.text(n))
	if err != nil {
		r.errorf(n, "budget %v", err)
		return
	}
	file.Budget = share
}

func (r *reader) span(n *yaml.Node) (s Span, ok bool) {
	fields := r.mapping(n, "a rule for spans", append([]string{"probe", "where"}, selectKeys...)...)
	if fields == nil {
		return s, false
	}
	if fields["probe"] == nil {
		r.errorf(n, "the rule needs a probe, PROVIDER:NAME without __start and __end, or go:FUNCTION")
	}
	s.Probe = r.probe(fields["probe"])
	for _, end := range []string{"__start", "__end"} {
		if name, found := strings.CutSuffix(s.Probe.String(), end); found {
			r.errorf(fields["probe"], "spans have the name of both of their probes: %s, without %s", name, end)
		}
	}
	s.Where = r.expr(fields["where"])
	s.Select = r.selection(fields)
	r.functions(fields, &s.Select, s.Probe)
	if s.Probe.IsLine() {
		r.errorf(fields["probe"], "a line takes no time, so it has no span: give the function")
	}
	if s.Probe.Returns {
		r.errorf(fields["probe"], "a span pairs calls with their returns: give %s", s.Probe.Calls())
	}
	return s, true
}
