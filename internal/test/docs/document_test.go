//go:build linux && (amd64 || arm64)

package docs_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// repository returns the root of this repository.
func repository(t *testing.T) string {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	return root
}

// needs skips a test that cannot follow a document here, or takes long. A tool is its name, or its name
// and its package: "pgrep=procps".
func needs(t *testing.T, tools ...string) {
	testenv.Long(t, "it builds programs and attaches many tracers")
	needsTracers(t, tools...)
}

// needsTracers is needs for a test that runs in the gate, too.
func needsTracers(t *testing.T, tools ...string) {
	tracetest.NeedTracefs(t)
	for _, tool := range append(tools, "bpftrace", "pgrep=procps") {
		name, pkg, _ := strings.Cut(tool, "=")
		testenv.NeedsTool(t, name, cmp.Or(pkg, name))
	}
}

// document is a README. Its commands run in a directory.
type document struct {
	dir   string
	lines []string // the indented lines, which are commands and output
	// replace puts the values of this run in place of what a reader replaces, such as PID.
	replace *strings.Replacer
}

// read reads the README of a directory, where its commands will run.
func read(t *testing.T, dir string) *document {
	d := &document{dir: dir, replace: strings.NewReplacer()}
	for line := range strings.Lines(readFile(t, dir+"/README.md")) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			d.lines = append(d.lines, strings.TrimSpace(code))
		}
	}
	return d
}

// example reads the README of an example that leaves no files behind.
func example(t *testing.T, name string) *document {
	return read(t, repository(t)+"/examples/"+name)
}

// module copies an example that is a module, because its commands leave files behind, and
// reads its README. The copy is outside the workspace, and has the scripts for every language
// beside it.
func module(t *testing.T, name string) *document {
	root, dir := repository(t), t.TempDir()+"/"+name
	require.NoError(t, os.CopyFS(dir, os.DirFS(root+"/examples/"+name)))
	require.NoError(t, os.CopyFS(filepath.Dir(dir)+"/scripts", os.DirFS(root+"/examples/scripts")))
	const path = "github.com/go-stapsdt/stapsdt"
	d := read(t, dir)
	d.run(t, fmt.Sprintf("go mod edit -replace %s=%s -replace %[1]s/internal/test=%[2]s/internal/test", path, root))
	return d
}

var comment = regexp.MustCompile(`  +# .*`)

// command returns the lines that begin with a match of the pattern, without comments.
func (d *document) command(t *testing.T, pattern string) string {
	t.Helper()
	begins := regexp.MustCompile(`^(?:` + pattern + `)`)
	var found []string
	for _, line := range d.lines {
		if begins.MatchString(line) {
			found = append(found, d.replace.Replace(comment.ReplaceAllString(line, "")))
		}
	}
	require.NotEmpty(t, found, "README.md has no line that begins with %s", pattern)
	return strings.Join(found, "\n")
}

// run runs a command to its end, which must be a good one, and returns its output.
func (d *document) run(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.Command("bash", "-ec", command)
	cmd.Dir = d.dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, out)
	return string(out)
}

// start starts a program that runs until the test ends. What it prints on standard error
// is in its standard output.
func (d *document) start(t *testing.T, command string) *tracetest.Process {
	t.Helper()
	return startGroup(t, d.dir, "exec 2>&1; exec "+command)
}

// build fills the build cache, so that go run starts the program soon.
func (d *document) build(t *testing.T) {
	t.Helper()
	d.run(t, "go build -o /dev/null .")
}

// requireShown requires that the document shows these lines, but for numbers.
func (d *document) requireShown(t *testing.T, lines []string) {
	t.Helper()
	var shown []string
	for _, line := range d.lines {
		shown = append(shown, shape(line))
	}
	printed := 0
	for _, line := range lines {
		if line = shape(line); line == "" {
			continue
		}
		printed++
		require.True(t, slices.Contains(shown, line), "README.md does not show: %s", line)
	}
	require.NotZero(t, printed, "it printed nothing")
}

var flowLine = regexp.MustCompile(`^[0-9]+ ([0-9]+ [0-9]+ (?:->|<-) .*\))$`)

// requireFlow requires that a flow of calls begins as the document shows, but for the time.
func (d *document) requireFlow(t *testing.T, lines []string) {
	t.Helper()
	calls := func(lines []string) (calls []string) {
		for _, line := range lines {
			if m := flowLine.FindStringSubmatch(line); m != nil && !strings.Contains(line, " ready ") {
				calls = append(calls, m[1])
			}
		}
		return calls
	}
	want, got := calls(d.lines), calls(lines)
	require.NotEmpty(t, want)
	require.GreaterOrEqual(t, len(got), len(want), "%q", got)
	require.Equal(t, want, got[:len(want)])
}

// block is an indented part of a guide that has commands, or a fenced one.
type block struct {
	lines    []string
	fence    string // what follows the three backquotes, or "indented"
	excused  bool   // the comment before it says why it is not run
	followed bool
}

// guide is a page of docs/. A test follows each of its blocks, unless a comment such as
// <!-- not run: it needs a cluster --> stands above the block.
type guide struct {
	document
	blocks []*block
}

var excuse = regexp.MustCompile(`^<!-- not run: .+ -->$`)

// readGuide reads a page. When the test ends, it fails for blocks that nothing has followed.
func readGuide(t *testing.T, name string) *guide {
	g := &guide{document: document{dir: t.TempDir(), replace: strings.NewReplacer()}}
	var current *block
	excused, first := false, true
	all := false // the reason at the top of the page is for every block that no test follows
	for line := range strings.Lines(readFile(t, root+"docs/"+name)) {
		line = strings.TrimSuffix(line, "\n")
		fence, isFence := strings.CutPrefix(line, "```")
		code, isCode := strings.CutPrefix(line, "    ")
		switch {
		case current != nil && current.fence != "indented":
			if isFence {
				current = nil
			} else {
				current.lines = append(current.lines, line)
			}
		case isFence:
			current = &block{fence: fence, excused: excused}
			g.blocks, excused = append(g.blocks, current), false
		case isCode:
			if current == nil {
				current = &block{fence: "indented", excused: excused}
				g.blocks, excused = append(g.blocks, current), false
			}
			current.lines = append(current.lines, code)
		case excuse.MatchString(line):
			excused, current, all = true, nil, all || first
		case line != "":
			excused, current = false, nil
		}
		first = first && (line == "" || strings.HasPrefix(line, "# ") || excuse.MatchString(line))
	}
	// Indented blocks without a prompt show what is printed, or how things are written.
	g.blocks = slices.DeleteFunc(g.blocks, func(b *block) bool {
		return b.fence == "indented" && !slices.ContainsFunc(b.lines, func(line string) bool { return prompt.MatchString(line) })
	})
	t.Cleanup(func() {
		for _, b := range g.blocks {
			if !t.Skipped() && b.followed == b.excused && !all {
				t.Errorf("%s: followed is %v, and excused is %v:\n%s", name, b.followed, b.excused, strings.Join(b.lines, "\n"))
			}
		}
	})
	return g
}

// find returns the block that has a line with the text, and counts it as followed.
func (g *guide) find(t *testing.T, text string) *block {
	t.Helper()
	for _, b := range g.blocks {
		if !b.followed && slices.ContainsFunc(b.lines, func(line string) bool { return strings.Contains(line, text) }) {
			b.followed = true
			return b
		}
	}
	require.Fail(t, "no block has a line with "+text)
	return nil
}

// code returns what is in the block that has a line with the text, and counts it as followed.
func (g *guide) code(t *testing.T, text string) string {
	t.Helper()
	return strings.Join(g.find(t, text).lines, "\n") + "\n"
}

var (
	prompt = regexp.MustCompile(`^ *[#$] `)
	cd     = regexp.MustCompile(`^cd (\S+)$`)
	// note is what a guide says of a line of output: the versions that print it.
	note      = regexp.MustCompile(`  +\(.*\)$`)
	addresses = regexp.MustCompile(`\b[0-9a-f]{8,16}\b`)
	hex       = regexp.MustCompile(`\b0x[0-9a-f]+`)
	frame     = regexp.MustCompile(`^[0-9a-f]+ (\S+\+0x)`)
	flags     = regexp.MustCompile(`\] \S{5} +`) // of a line of trace_pipe
	position  = regexp.MustCompile(`^stdin:\d+:[\d-]+: `)
	device    = regexp.MustCompile(` [0-9a-f]{2}:[0-9a-f]{2} `)
	image     = regexp.MustCompile(`/[^ ]*/(\w+-)(?:[0-9a-f]{32}|…)\.so`)
	program   = regexp.MustCompile(`\(/\S+/hello\)`)
	number    = regexp.MustCompile(`[0-9]+`)
	bar       = regexp.MustCompile(`@+`)
	durations = regexp.MustCompile(`\b[\d.]+(ns|µs|ms|s)\b`)
	cut       = regexp.MustCompile(`"[^" ]*…`)
	attaching = regexp.MustCompile(`^Attach(?:ing|ed) (\d+) probes?(?:\.\.\.)?$`)
)

// console is a command of a block, and what the guide shows of its output.
type console struct {
	command string
	output  []string
}

// consoles returns a block's commands, of which some have several lines.
func (b *block) consoles() (list []console) {
	for i := 0; i < len(b.lines); i++ {
		line := b.lines[i]
		if prompt.MatchString(line) {
			command := prompt.ReplaceAllString(line, "")
			for strings.Count(command, "'")%2 == 1 {
				i++
				command += "\n" + b.lines[i]
			}
			list = append(list, console{command: note.ReplaceAllString(command, "")})
		} else if len(list) > 0 && strings.TrimSpace(line) != "" {
			c := &list[len(list)-1]
			c.output = append(c.output, line)
		}
	}
	return list
}

// shape returns a line without what differs from run to run. Durations have any unit, and a text that is cut ends somewhere.
func shape(line string) string {
	line = cut.ReplaceAllString(durations.ReplaceAllString(line, "1s"), `"cut"`)
	line = position.ReplaceAllString(strings.TrimSpace(line), "")
	line = attaching.ReplaceAllString(line, "attaches to $1")
	line = device.ReplaceAllString(line, " device ")
	line = image.ReplaceAllString(line, "/${1}.so")
	line = flags.ReplaceAllString(frame.ReplaceAllString(line, "1 $1"), "] flags ")
	line = addresses.ReplaceAllString(hex.ReplaceAllString(line, "1"), "1")
	line = number.ReplaceAllString(program.ReplaceAllString(line, "(/hello)"), "1")
	return strings.Join(strings.Fields(bar.ReplaceAllString(line, "@")), " ")
}

// expected turns a shown line into a pattern for a line's shape.
func expected(line string, shape func(string) string) *regexp.Regexp {
	line = regexp.QuoteMeta(shape(note.ReplaceAllString(line, "")))
	return regexp.MustCompile("^" + strings.ReplaceAll(line, "…", ".*") + "$")
}

// missing returns the first line of the output that is shown, and is not among the lines, or "".
func (c console) missing(lines []string, shape func(string) string) string {
	for _, shown := range c.output {
		pattern := expected(shown, shape)
		if !slices.ContainsFunc(lines, func(line string) bool { return pattern.MatchString(shape(line)) }) {
			return shown
		}
	}
	return ""
}

// follow runs the commands of the block that has a line with the text, and waits until each
// has printed the lines that the guide shows, or has ended.
func (g *guide) follow(t *testing.T, text string) {
	t.Helper()
	g.followBlock(t, g.find(t, text))
}

func (g *guide) followBlock(t *testing.T, b *block) {
	t.Helper()
	_, minor := tracetest.BpftraceVersion(t)
	old := minor <= 17
	for _, c := range b.consoles() {
		command := g.replace.Replace(c.command)
		if m := cd.FindStringSubmatch(command); m != nil {
			g.dir = m[1]
			continue
		}
		p := startGroup(t, g.dir, `exec 2>&1
			bpftrace() { command `+strings.Join(tracetest.BpftraceCommand(t), " ")+` -B line "$@"; }
			perf() {
				case $1 in # which is for a terminal: it writes to, or reads from, a pipe otherwise
				record) shift; command perf record -o perf.data "$@" ;;
				script) shift; command perf script -i perf.data "$@" ;;
				*) command perf "$@" ;;
				esac
			}
			`+command)
		c.output = slices.DeleteFunc(c.output, func(line string) bool { // of another version
			says := note.FindString(line)
			return says != "" && strings.Contains(says, "0.17") != old
		})
		for i, line := range c.output {
			c.output[i] = g.replace.Replace(line)
		}
		require.Eventually(t, func() bool { return p.Ended() || c.missing(p.Lines(), shape) == "" }, testenv.Patience, 100*time.Millisecond)
		require.Empty(t, c.missing(p.Lines(), shape), "%s\nhas not printed this\n%s", command, p.Dump())
		if len(c.output) == 0 && strings.Contains(command, "bpftrace -e") {
			p.WaitLine("hello, tracer ", testenv.Patience) // which goes on
		} else if len(c.output) == 0 {
			require.NoError(t, p.Wait(testenv.Patience), "%s\n%s", command, p.Dump())
		}
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		_ = p.Wait(testenv.Patience)
	}
}
