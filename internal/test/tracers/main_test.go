//go:build linux

package tracers

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"golang.org/x/sys/unix"
)

// What scripts/lib/tracers.sh gives. Without a directory of programs the tracers are not run.
var (
	programs  = flag.String("programs", "", "the directory of the subjects and of the tracers that are built here")
	foreign   = flag.String("foreign", "", "a tree of the newest Debian, to chroot into")
	tableFile = flag.String("table", "", "where to write the table")
)

var found, traced, scripted = newPage()

// newPage is one function so that the tables are in this order, whatever the order of initialization.
func newPage() (p *page, traced, scripted *table) {
	p = &page{words: map[string]int{}}
	traced = p.table("", titles()...)
	scripted = p.table("DTrace also ran the D scripts of the examples ([functions and tasks](../examples/scripts/README.md#with-dtrace), "+
		"[Go](../examples/http/scripts/latency.d), [C](../examples/c/lengths.d)) with programs in these languages:", exampleTitles()...)
	return p, traced, scripted
}

func titles() (list []string) {
	for _, k := range kinds {
		list = append(list, k.String())
	}
	return list
}

func TestMain(m *testing.M) {
	flag.Parse()
	if *programs == "" {
		fmt.Println("no tests: scripts/lib/tracers.sh runs them, with the programs that it builds")
		return
	}
	status := m.Run()
	if *tableFile == "" {
		os.Exit(status)
	}
	where := runtime.GOARCH
	if *guest != "" {
		where += ", with the tracers of Debian " + *guest
	}
	text := fmt.Sprintf("Linux %s on %s.\n\n%s", kernel(), where, found.markdown())
	if err := os.WriteFile(*tableFile, []byte(text), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	fmt.Printf("\n%s\n%s\n", text, found.verdict())
	// A run in which nothing was tried has shown nothing.
	if found.markdown() == "" {
		status = 1
	}
	os.Exit(status)
}

// kernel is the version of the running kernel, as users know it: "6.18".
func kernel() string {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "?"
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(uts.Release[:]), "%d.%d", &major, &minor); err != nil {
		return "?"
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

func TestTracers(t *testing.T) {
	for _, r := range allRows() {
		t.Run(r.tool+" "+r.version()+" "+r.way, func(t *testing.T) {
			for _, k := range kinds {
				if r.lacks != nil && r.lacks(k) {
					traced.add(r.tool, r.version(), r.way, k.String(), result{word: lacking})
					continue
				}
				cell := result{word: failed}
				t.Run(k.String(), func(t *testing.T) { cell = try(t, r, k) })
				traced.add(r.tool, r.version(), r.way, k.String(), cell)
			}
		})
	}
}

// try fills a cell. It returns only if the cell is as expected.
func try(t *testing.T, r row, k kind) result {
	s := start(t, k)
	if r.cannot != nil {
		if o := r.cannot(k); o != nil {
			o.proof(t, s)
			if r.inGuest && *guest == "" {
				return result{elsewhere, o.why}
			}
			return result{impossible, o.why}
		}
	}
	r.works(t, s)
	cell := result{word: works}
	if r.remark != nil {
		cell.why = r.remark(k)
	}
	return cell
}

// built is the path of a program that scripts/lib/tracers.sh has built.
func built(name string) string { return filepath.Join(*programs, name) }

// guest is set by scripts/lib/guests.sh, in a guest whose kernel has headers and modules. A tracer
// of one release is installed there.
var guest = flag.String("guest", "", "the Debian release of the guest: try only the tracers that need its kernel's headers or modules")

// patience is how long a tracer may take. In a guest, which is emulated, bcc compiles for minutes.
func patience() time.Duration {
	if *guest != "" {
		return 5 * testenv.Patience
	}
	return testenv.Patience
}

// guestRows are of the tracers that need the headers or the modules of the running kernel.
func guestRows() []row {
	rows := slices.Concat(bccRows(host{}), kernelRows(), otherRows())
	return slices.DeleteFunc(rows, func(r row) bool { return !r.inGuest })
}
