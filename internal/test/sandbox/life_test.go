//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	tracetest.Main(m, map[string]func([]string){
		"seccomp":   seccompChild,
		"forbidden": forbiddenChild,
		"traced":    tracedChild,
		"life":      lifeChild,
		"confined":  confinedChild,
	})
}

// directory makes a directory of the test's own the only one.
func directory(t *testing.T) tracetest.ChildOption {
	return tracetest.WithEnv("STAPSDT_DIR=", "XDG_RUNTIME_DIR="+t.TempDir(), "TMPDIR=/nonexistent")
}

func must(err error) {
	if err != nil {
		fmt.Println("problem:", err)
		os.Exit(1)
	}
}

// life goes through a provider's life, and says where it was loaded.
func life(what string, opts ...stapsdt.Option) {
	p := stapsdt.NewProvider("sandboxed", opts...)
	event := stapsdt.NewProbe2[string, int](p, "event")
	many, err := p.AddProbe("many", stapsdt.Int32, stapsdt.String)
	must(err)
	for range 3 {
		must(p.Load())
		fmt.Println(what, p.Path())
		for range 100 {
			event.Fire("text", 1)
			must(many.Fire(1, "text"))
		}
		event.Enabled()
		must(p.Unload())
	}
	must(p.Load())
	runtime.GC()
	must(p.Close())
	must(p.Close())
}

// lifeChild lives, in a file and in memory, in what its parent has made for it.
func lifeChild([]string) {
	life("file")
	life("memory", stapsdt.WithMemfd())
}

// seccompChild is lifeChild in a profile.
func seccompChild(args []string) {
	must(enter(args[0]))
	lifeChild(nil)
}

// forbiddenChild makes a system call that is in no profile.
func forbiddenChild(args []string) {
	must(enter(args[0]))
	syscall.Syscall(unix.SYS_KEXEC_LOAD, 0, 0, 0)
	fmt.Println("still here")
}

// tracedChild fires in a profile, while it is traced.
func tracedChild(args []string) {
	must(enter(args[0]))
	p := stapsdt.NewProvider("sandboxed")
	event := stapsdt.NewProbe2[string, int](p, "event")
	must(p.Load())
	fmt.Println("loaded", p.Path())
	bufio.NewReader(os.Stdin).ReadString('\n')
	for i := range 1000 {
		event.Fire("text", i)
	}
	fmt.Println("fired 1000")
	must(p.Close())
}
