//go:build linux && (amd64 || arm64)

package arguments

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/test/values"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// firing is a case: a probe, how it is fired, and what with.
type firing struct {
	probe *stapsdt.Probe
	fire  func() error
	args  []any
}

// suite is a provider, and what is to be fired of it.
type suite struct {
	*stapsdt.Provider
	firings []firing
}

// add adds a case. The arguments that are expected are those that fire passes.
func (s *suite) add(probe *stapsdt.Probe, fire func() error, args ...any) {
	s.firings = append(s.firings, firing{probe, fire, args})
}

// dynamic adds a case of Fire with any arguments.
func (s *suite) dynamic(probe *stapsdt.Probe, args ...any) {
	s.add(probe, func() error { return probe.Fire(args...) }, args...)
}

// typed adds a case of a typed Fire.
func (s *suite) typed(probe *stapsdt.Probe, fire func(), args ...any) {
	s.add(probe, func() error { fire(); return nil }, args...)
}

// everywhere runs the cases that fill adds to a provider, in each placement, with the site that this kernel traces best and, where it is another one,
// with that of older kernels.
func everywhere(t *testing.T, fill func(t *testing.T, s *suite)) {
	bpf.Need(t)
	for _, kind := range slices.Compact([]string{site.Chosen().Name, image.Host().Nops[0].Name}) {
		for place, opt := range map[string]stapsdt.Option{"file": stapsdt.WithDir(t.TempDir()), "memfd": stapsdt.WithMemfd()} {
			t.Run(kind+"/"+place, func(t *testing.T) {
				if kind != site.Chosen().Name {
					testenv.Long(t, "it runs everything once more")
				}
				t.Setenv("STAPSDT_SITE", kind)
				s := &suite{Provider: stapsdt.NewProvider("truth", opt)}
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				fill(t, s)
				require.NoError(t, s.Load())
				require.Equal(t, place == "memfd", strings.HasPrefix(s.Path(), "/proc/"), s.Path())
				s.run(t, image.Host().NopByName(kind))
			})
		}
	}
}

// run fires each case under a tracer, and compares what that saw.
func (s *suite) run(t *testing.T, nop *image.Nop) {
	sites, err := bpf.Sites(s.Path())
	require.NoError(t, err)
	file, err := os.ReadFile(s.Path())
	require.NoError(t, err)
	code := nop.Code + image.Host().Ret
	require.Equal(t, code, string(file[sites[0].Offset:][:len(code)]), "the site is of another kind")
	require.Len(t, sites, len(s.Probes()))
	siteOf := map[*stapsdt.Probe]bpf.Site{}
	for i, probe := range s.Probes() {
		siteOf[probe] = sites[i]
		require.False(t, probe.Enabled())
	}
	recorder, err := bpf.NewRecorder()
	require.NoError(t, err)
	defer func() { require.NoError(t, recorder.Close()) }()
	link, err := recorder.Attach(s.Path(), sites)
	require.NoError(t, err)
	start := time.Now()
	for i, f := range s.firings {
		require.True(t, f.probe.Enabled())
		require.NoError(t, f.check(recorder, siteOf[f.probe]), "case %d: %v fired with %.200q", i, f.probe, fmt.Sprint(f.args))
	}
	each := time.Since(start) / time.Duration(len(s.firings))
	t.Logf("%d cases of %d probes, %v each", len(s.firings), len(s.Probes()), each)
	require.NoError(t, link.Close())
	for _, f := range s.firings {
		require.False(t, f.probe.Enabled())
	}
	require.Zero(t, recorder.Unread(), "more was seen than was fired")
}

// check fires the case, and reports what differs in what the tracer saw at the site.
func (f firing) check(r *bpf.Recorder, site bpf.Site) error {
	if site.Provider != f.probe.Provider().Name() || site.Name != f.probe.Name() || len(site.Args) != len(f.args) {
		return fmt.Errorf("the note is %+v", site)
	}
	var texts []bpf.Text
	for i, arg := range f.args {
		if text, ok := textOf(arg); ok {
			texts = append(texts, bpf.Text{Arg: site.Args[i], Size: len(text)})
		}
	}
	if err := r.Expect(texts...); err != nil {
		return err
	}
	if err := f.fire(); err != nil {
		return err
	}
	e, err := r.Read(testenv.Patience)
	if err != nil {
		return err
	}
	if e.Cookie != site.Cookie || e.PID != os.Getpid() {
		return fmt.Errorf("seen at site %d, not %d, in process %d", e.Cookie, site.Cookie, e.PID)
	}
	for i, arg := range f.args {
		if text, ok := textOf(arg); ok {
			if got := string(e.Texts[0]); got != text {
				return fmt.Errorf("argument %d: seen %.100q, fired %.100q", i, got, text)
			}
			e.Texts = e.Texts[1:]
			continue
		}
		got, err := e.Arg(site.Args[i])
		if err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
		if want := values.Word(arg); got != want {
			return fmt.Errorf("argument %d: seen %#x, fired %#x", i, got, want)
		}
	}
	return nil
}

// textOf returns what a tracer must find where a string or a []byte is: its first bytes, and the NUL.
func textOf(arg any) (text string, ok bool) {
	switch v := reflect.ValueOf(arg); v.Kind() {
	case reflect.String:
		text = v.String()
	case reflect.Slice:
		text = string(v.Bytes())
	default:
		return "", false
	}
	return text[:min(len(text), stapsdt.MaxString-1)] + "\x00", true
}
