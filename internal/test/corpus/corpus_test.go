//go:build linux

package corpus

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"
)

const download = "packages of Debian"

// eachFile runs a test for each file with probes of an architecture's packages, and returns
// how many probes there were.
func eachFile(t *testing.T, c corpus, test func(path string, probes []sdt.Site)) int {
	t.Helper()
	total := 0
	for _, tree := range c.unpack(t) {
		count := 0
		for _, path := range elfFiles(t, tree) {
			probes, err := sdt.ReadFile(path)
			if errors.Is(err, sdt.ErrNoProbes) {
				continue
			}
			require.NoError(t, err)
			count += len(probes)
			test(path, probes)
		}
		t.Logf("%s: %d probes", tree, count)
		total += count
	}
	return total
}

// readelfNotes reads the notes of a file as readelf prints them, one line for each.
func readelfNotes(t *testing.T, path string) []string {
	t.Helper()
	readelf := testenv.NeedsTool(t, "readelf", "binutils")
	out, err := exec.Command(readelf, "--notes", "--wide", path).Output()
	require.NoError(t, err)
	var notes []string
	note := regexp.MustCompile(`Provider: (.*)\n *Name: (.*)\n *Location: 0x0*(\w+), Base: 0x0*(\w+), Semaphore: 0x0*(\w*)\n *Arguments: *(.*)\n`)
	for _, m := range note.FindAllStringSubmatch(string(out), -1) {
		if m[5] == "" {
			m[5] = "0"
		}
		notes = append(notes, strings.Join(slices.Delete(m[1:], 3, 4), " "))
	}
	return notes
}

// notUnderstood are the only operands of the corpus that are not. The assembler relates
// these to the global offset table, whose place the note does not say.
var notUnderstood = regexp.MustCompile(`^-4@[0-9]+\+CheckpointStats@GOTOFF\(%ebx\)$`)

// asReadelf writes probes as readelfNotes returns them, and requires that their operands are understood.
func asReadelf(t *testing.T, probes []sdt.Site) (notes []string) {
	t.Helper()
	for _, probe := range probes {
		var words []string
		for _, a := range probe.Args {
			if a.Err != nil && !notUnderstood.MatchString(a.String()) {
				t.Errorf("%s:%s: %v", probe.Provider, probe.Name, a.Err)
			}
			words = append(words, a.String())
		}
		notes = append(notes, fmt.Sprintf("%s %s %x %x %s", probe.Provider, probe.Name, probe.Address, probe.Semaphore, strings.Join(words, " ")))
	}
	return notes
}

// TestReadelf is TestNotes for all files of the packages.
func TestReadelf(t *testing.T) {
	testenv.Downloads(t, download, nil)
	for _, c := range corpora {
		t.Run(c.arch, func(t *testing.T) {
			total := eachFile(t, c, func(path string, probes []sdt.Site) {
				require.Equal(t, readelfNotes(t, path), asReadelf(t, probes), path)
				if *update {
					save(t, c, path)
				}
			})
			require.Greater(t, total, 50)
		})
	}
}

// asTplist writes an argument as bcc's tplist prints it.
func asTplist(a sdt.Arg) string {
	o := a.Operand
	register := func(r sdt.Register) string {
		name := strings.TrimPrefix(r.Full, "%r")
		if name[0] >= '0' && name[0] <= '9' {
			return "r" + name
		}
		return name
	}
	sign := "unsigned"
	if a.Signed {
		sign = "signed  "
	}
	text := ""
	switch {
	case o.Kind == sdt.OperandConstant:
		text = fmt.Sprint(o.Displacement)
	case o.Kind == sdt.OperandRegister:
		text = register(o.Base)
	case o.Symbol != "":
		text = "unrecognized argument format, flags 14" // TestTplist: bcc reads it, but does not print it
	default:
		direction, distance := "+", o.Displacement
		if distance < 0 {
			direction, distance = "-", -distance
		}
		index := ""
		if o.Index.Name != "" {
			index = " + " + register(o.Index)
			if o.Scale > 1 {
				index = fmt.Sprintf(" + (%s * %d)", register(o.Index), o.Scale)
			}
		}
		text = fmt.Sprintf("*(%s %s %d%s)", register(o.Base), direction, distance, index)
	}
	return fmt.Sprintf("%d %s bytes @ %s", a.Size, sign, text)
}

// TestTplist: bcc reads the same out of every note. It lists the sites of one name together.
func TestTplist(t *testing.T) {
	testenv.Downloads(t, download, nil)
	if runtime.GOARCH != "amd64" {
		t.Skip("bcc reads the notes of the machine that it is built for")
	}
	tplist := testenv.NeedsTool(t, "tplist-bpfcc", "bpfcc-tools")
	eachFile(t, corpora[0], func(path string, probes []sdt.Site) {
		out, err := exec.Command(tplist, "-vv", "-l", path).Output()
		require.NoError(t, err)
		require.Equal(t, wantTplist(probes), sitesOfTplist(string(out)), path)
	})
}

// wantTplist writes each site on a line, in order.
func wantTplist(probes []sdt.Site) (sites []string) {
	for _, p := range probes {
		line := fmt.Sprintf("%s:%s %#x %#x", p.Provider, p.Name, p.Semaphore, p.Address)
		for _, a := range p.Args {
			line += " | " + asTplist(a)
		}
		sites = append(sites, line)
	}
	slices.Sort(sites)
	return sites
}

// sitesOfTplist reads tplist's output.
func sitesOfTplist(out string) (sites []string) {
	name := ""
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		fields := strings.Fields(line)
		switch {
		case strings.Contains(line, " [sema "):
			name = fields[0] + " " + strings.TrimSuffix(fields[len(fields)-1], "]")
		case len(fields) > 2 && fields[0] == "location":
			sites = append(sites, name+" "+fields[len(fields)-1])
		case len(fields) > 2 && fields[0] == "argument":
			_, text, _ := strings.Cut(line, fields[1]+" ")
			sites[len(sites)-1] += " | " + text
		}
	}
	slices.Sort(sites)
	return sites
}
