package debugprobe

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/described"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// The limits and the defaults of a viewer's request.
const (
	maxViewers   = 8
	maxSource    = 1024 // bytes of an expression
	maxSeconds   = 600
	usualSeconds = 60
	maxRate      = 1000 // events per second
	usualRate    = 100
)

// request holds the probes that a viewer watches, and the limits of the answer.
type request struct {
	probes  map[*stapsdt.Probe]*watchedProbe
	seconds time.Duration
	rate    int
	most    int // stop after this many events, or 0 for no limit
	grouped bool
}

// watchedProbe is a probe with the expressions that a viewer applies to its events.
type watchedProbe struct {
	*expressions
	probe *stapsdt.Probe
}

// expressions are the checked expressions of a request, for all probes whose arguments have the
// same names and types.
type expressions struct {
	filter    *expr.Expr // or nil
	value, by *expr.Expr // the expressions of the histogram, or nil
	numArgs   int
}

// parse reads the parameters of a request.
func parse(r *http.Request) (*request, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &problem{Status: http.StatusBadRequest, Message: "the query is malformed"}
	}
	for name, values := range query {
		switch name {
		case "provider", "probe", "filter", "value", "by", "seconds", "rate", "events":
			if len(values) > 1 {
				return nil, bad(name, "the parameter %s is given more than once", name)
			}
		default:
			return nil, bad(name, "there is no parameter %q", name)
		}
	}
	q := &request{probes: map[*stapsdt.Probe]*watchedProbe{}}
	seconds, err := number(query, "seconds", usualSeconds, maxSeconds)
	if err != nil {
		return nil, err
	}
	q.seconds = time.Duration(seconds) * time.Second
	if q.rate, err = number(query, "rate", usualRate, maxRate); err != nil {
		return nil, err
	}
	if q.most, err = number(query, "events", 0, 1<<30); err != nil {
		return nil, err
	}
	return q, q.choose(query)
}

// number reads a whole number from 1 to most.
func number(query url.Values, name string, usual, most int) (int, error) {
	s := query.Get(name)
	if s == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, bad(name, "%s must be a whole number from 1 to %d", name, most)
	}
	return n, nil
}

func bad(parameter, format string, args ...any) error {
	return &problem{
		Status: http.StatusBadRequest, Parameter: parameter, Message: fmt.Sprintf(format, args...),
	}
}

// choose finds the probes and checks the expressions for each of them. Probes that lack a name that
// the expressions use are left out. It is an error if all are.
func (q *request) choose(query url.Values) error {
	provider, name := query.Get("provider"), query.Get("probe")
	q.grouped = query.Get("value") != "" || query.Get("by") != ""
	parsed := map[string]*expressions{} // nil for probes that are left out
	var unfit error
	for _, p := range stapsdt.Providers() {
		if provider != "" && p.Name() != provider {
			continue
		}
		for _, probe := range p.Probes() {
			if name != "" && probe.Name() != name {
				continue
			}
			vars := variables(probe)
			key := layout(vars)
			e, known := parsed[key]
			if !known {
				var err error
				if e, err = parseExpressions(probe, vars, query); err != nil {
					unfit = cmp.Or(unfit, err)
				}
				parsed[key] = e
			}
			if e != nil {
				q.probes[probe] = &watchedProbe{e, probe}
			}
		}
	}
	if len(q.probes) == 0 && unfit != nil {
		return unfit
	}
	if len(q.probes) == 0 {
		return &problem{Status: http.StatusNotFound, Parameter: "probe", Message: "no provider has such a probe"}
	}
	return nil
}

func parseExpressions(
	probe *stapsdt.Probe, vars []expr.Var, query url.Values,
) (*expressions, error) {
	all := &expressions{numArgs: len(probe.Args())}
	for _, e := range []struct {
		name  string
		to    **expr.Expr
		parse func(string, []expr.Var) (*expr.Expr, error)
	}{
		{"filter", &all.filter, expr.ParseFilter}, {"value", &all.value, parseNumber},
		{"by", &all.by, expr.Parse},
	} {
		src := query.Get(e.name)
		if src == "" {
			continue
		}
		if len(src) > maxSource {
			return nil, bad(e.name, "the expression has %d bytes, but at most %d are allowed", len(src), maxSource)
		}
		parsed, err := e.parse(src, vars)
		if err != nil {
			return nil, located(e.name, probe, err)
		}
		*e.to = parsed
	}
	return all, nil
}

func parseNumber(src string, vars []expr.Var) (*expr.Expr, error) {
	return expr.ParseNumber(src, vars, "a histogram")
}

// located reports the place of an error in an expression.
func located(parameter string, probe *stapsdt.Probe, err error) error {
	p := &problem{Status: http.StatusBadRequest, Parameter: parameter, Message: err.Error()}
	var at *expr.Error
	if errors.As(err, &at) {
		p.Message, p.Text, p.Offset = fmt.Sprintf("%s (for %s)", at.Msg, probe), at.Error(), &at.Pos
	}
	return p
}

// The variables after the arguments.
var extra = []expr.Var{
	{Name: "pid", Type: expr.Type{Kind: expr.Int, Size: 8}},
	{Name: "provider", Type: expr.Type{Kind: expr.String}},
	{Name: "probe", Type: expr.Type{Kind: expr.String}},
}

var pid = int64(os.Getpid())

// variables returns the names that expressions may use. The names of arguments come first, so
// that they hide others.
func variables(probe *stapsdt.Probe) []expr.Var {
	args := described.Probe(probe).Args
	vars := make([]expr.Var, 2*len(args), 2*len(args)+len(extra))
	for i, a := range args {
		t := expr.TypeOf(a.Kind, a.Type)
		vars[i] = expr.Var{Name: a.Name, Type: t}
		vars[len(args)+i] = expr.Var{Name: positions[i], Type: t}
	}
	return append(vars, extra...)
}

// layout returns a string that is the same for variables of the same names and types. Names have
// no line breaks.
func layout(vars []expr.Var) string {
	var b strings.Builder
	for _, v := range vars[:len(vars)-len(extra)] {
		fmt.Fprintln(&b, v.Name, v.Type)
	}
	return b.String()
}

// get returns the value of a variable for an event. It follows the order of variables.
func (w *watchedProbe) get(e *stapsdt.Event, i int) expr.Value {
	if i >= 2*w.numArgs {
		switch i - 2*w.numArgs {
		case 0:
			return expr.IntValue(pid)
		case 1:
			return expr.StringValue(w.probe.Provider().Name())
		}
		return expr.StringValue(w.probe.Name())
	}
	if i >= w.numArgs {
		i -= w.numArgs
	}
	v := e.Arg(i)
	switch class := kind.Kind(v.Kind()).Row().Class; class {
	case kind.Text:
		return expr.StringValue(v.String())
	case kind.Float:
		return expr.FloatValue(v.Float64())
	default:
		return expr.WordValue(class, v.Uint64())
	}
}
