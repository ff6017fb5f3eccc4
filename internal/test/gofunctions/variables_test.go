//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// moment is an event of a line: the probe, and the number of the call of a random function in which it happens.
type moment struct {
	probe string
	call  int
}

// variables are those of an event, with the names of those that may be old.
type variables struct {
	Probe  string
	Args   map[string]any
	Unsure []string
}

// variablesOf reads the variables of an event.
func variablesOf(t *testing.T, line string) (v variables) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	require.NoError(t, d.Decode(&v), line)
	require.NotEmpty(t, v.Probe, line) // nothing is lost
	return v
}

// lineOf returns the number in the name of the probe of a line.
func lineOf(probe string) int {
	number, _ := strconv.Atoi(probe[strings.LastIndexByte(probe, ':')+1:])
	return number
}

// atLines returns the variables at all lines of a random program, in the order of the events of each. The line of a random function is
// its call.
func atLines(t *testing.T, source, path string, args ...string) map[moment][]variables {
	t.Helper()
	begins := map[string]bool{}
	for i, line := range strings.Split(source, "\n") {
		if strings.HasPrefix(line, "func f") && strings.Contains(line, "(k int, s0 string, ") {
			begins[fmt.Sprintf("main.go:%d", i+1)] = true
		}
	}
	s := launch(t, path)
	var specs []string
	for _, p := range s.list("go:main.go:1-100000") {
		specs = append(specs, "go:"+p.Probe)
	}
	slices.Sort(specs)
	specs = slices.Compact(specs)
	c := s.command(specs, slices.Concat([]string{"trace", "-o", "json", "--budget", "100%"}, args, specs)...)
	s.Say("")
	s.Expect("done", testenv.Patience)
	all, call := map[moment][]variables{}, 0
	for _, line := range stop(t, c) {
		v := variablesOf(t, line)
		if begins[v.Probe] {
			call++
		}
		at := moment{v.Probe, call}
		all[at] = append(all[at], v)
	}
	require.Equal(t, 12*len(begins), call) // 12 rounds
	return all
}

// isAddress reports whether a value differs between two runs.
func isAddress(v any) bool {
	n, isNumber := v.(json.Number)
	if isNumber {
		u, err := strconv.ParseUint(strings.TrimPrefix(n.String(), "-"), 10, 64)
		return err == nil && u > 1<<36
	}
	text, ok := v.(string)
	return ok && strings.HasPrefix(text, "0x")
}

// isTypeOf reports whether a value is an error of which only the type is known: the compiler has dropped the rest.
func isTypeOf(v, known any) bool {
	name, ok := v.(string)
	text, _ := known.(string)
	return ok && strings.HasPrefix(name, "*") && strings.HasPrefix(text, name+" ")
}

// comparison counts values: those that are right and wrong, of variables without and with a mark, and those of which the truth is unknown.
type comparison struct{ right, wrong, old, unsure, unknown int }

func (c *comparison) add(o comparison) {
	c.right, c.wrong, c.unknown = c.right+o.right, c.wrong+o.wrong, c.unknown+o.unknown
	c.old, c.unsure = c.old+o.old, c.unsure+o.unsure
}

func (c *comparison) String() string {
	return fmt.Sprintf("%d values are right and %d wrong; of those with a mark, %d are right and %d wrong; %d could not be compared",
		c.right, c.wrong, c.unsure, c.old, c.unknown)
}

// compare compares the values at the lines of two builds of a program. If a line has different numbers of events in a call, a value must
// be one that the variable has there.
func compare(t *testing.T, source string, truth, got map[moment][]variables) (c comparison) {
	lines, said := strings.Split(source, "\n"), map[string]bool{}
	for at, events := range got {
		same := len(events) == len(truth[at])
		for i := range events {
			for name, v := range events[i].Args {
				if v == nil || isAddress(v) {
					continue
				}
				var of []any
				for j := range truth[at] {
					if known := truth[at][j].Args[name]; known != nil && (!same || i == j) {
						of = append(of, known)
					}
				}
				isIt := func(known any) bool { return known == v || isTypeOf(v, known) }
				isRight, isUnsure := slices.ContainsFunc(of, isIt), slices.Contains(events[i].Unsure, name)
				switch {
				case len(of) == 0:
					c.unknown++
				case isUnsure && isRight:
					c.unsure++
				case isUnsure:
					c.old++
				case isRight:
					c.right++
				default:
					c.wrong++
					if where := at.probe + " " + name; !said[where] {
						said[where] = true
						number, text := lineOf(at.probe), ""
						if number <= len(lines) {
							text = strings.TrimSpace(lines[number-1])
						}
						t.Errorf("%s: %s is %v and not %v: %s", at.probe, name, v, of[:min(len(of), 4)], text)
					}
				}
			}
		}
	}
	return c
}

// valueBuild is a way to build a program.
type valueBuild struct {
	env, flags []string
	profiled   bool
}

var valueBuilds = map[string]valueBuild{
	"plain": {}, "PIE": {flags: []string{"-buildmode=pie"}}, "trimpath": {flags: []string{"-trimpath"}}, "race": {flags: []string{"-race"}},
	"PGO":  {profiled: true},
	"1.24": {env: []string{"GOTOOLCHAIN=go1.24.13"}}, "1.25": {env: []string{"GOTOOLCHAIN=go1.25.5"}}, "1.27": {env: []string{"GOTOOLCHAIN=go1.27.0"}},
}

// profile returns the profile of a program, for the compiler.
func profile(t *testing.T, path string) string {
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "PROFILE="+file)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

var prebuilt = flag.String("prebuilt", "", "a directory of the programs of TestRandomVariables, which builds them there and does no more if there are none")

// buildFor builds a program, or takes it from the directory of those that were built before.
func buildFor(t *testing.T, name, source string, env []string, flags ...string) (path string) {
	if *prebuilt == "" {
		return build(t, source, env, flags...)
	}
	path = filepath.Join(*prebuilt, name)
	if _, err := os.Stat(path); err != nil {
		require.NoError(t, os.Rename(build(t, source, env, flags...), path))
	}
	return path
}

// randomBuilds returns how many random programs there are, of how many functions, and how they are built.
func randomBuilds() (seeds, functions int, names []string) {
	names = slices.Sorted(maps.Keys(valueBuilds))
	switch {
	case *prebuilt != "": // for a guest, which is emulated and has no dynamic linker
		names = []string{"plain", "trimpath", "1.24", "1.25", "1.27"}
		return len(names), 4, names
	case testing.Short():
		return 1, 5, []string{"plain"}
	}
	return 20, 10, names
}

// TestRandomVariables: no variable of a random program has a wrong value, unless it has a mark. The truth is what the same source does
// without optimization.
func TestRandomVariables(t *testing.T) {
	testenv.NeedsRoot(t)
	seeds, functions, builds := randomBuilds()
	there, _ := filepath.Glob(filepath.Join(*prebuilt, "*-truth"))
	onlyBuilds := *prebuilt != "" && len(there) == 0
	var total comparison
	for seed := range seeds {
		source, dir := randomValues(uint64(seed), functions), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
		path, truth := buildFor(t, fmt.Sprint(seed, "-truth"), source, nil, "-gcflags=all=-N -l"), map[moment][]variables(nil)
		if !onlyBuilds {
			truth = atLines(t, source, path)
		}
		for i := range max(1, len(builds)/3) {
			name := builds[(seed+3*i)%len(builds)]
			t.Run(fmt.Sprint(seed, " ", name), func(t *testing.T) {
				b := valueBuilds[name]
				flags := b.flags
				if b.profiled {
					flags = append(flags, "-pgo="+profile(t, build(t, source, nil)))
				}
				path := buildFor(t, fmt.Sprint(seed, "-", name), source, b.env, flags...)
				if onlyBuilds {
					return
				}
				c := compare(t, source, truth, atLines(t, source, path, "--source", dir))
				t.Log(c.String())
				require.Positive(t, c.right)
				total.add(c)
			})
		}
	}
	t.Log(total.String())
	require.True(t, onlyBuilds || total.unsure > 0)
}
