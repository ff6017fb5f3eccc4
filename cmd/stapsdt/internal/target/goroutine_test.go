//go:build linux && (amd64 || arm64)

package target

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestGoidOffset: the table is what the debug information of a program says that this
// toolchain builds, and a program without a known version is an error.
func TestGoidOffset(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-o", program, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want, err := goidFromDWARF(file)
	if err != nil {
		t.Fatal(err)
	}
	known := goidOffsets[release(runtime.Version())]
	if known != want {
		t.Errorf("%s has goid at %d, and the table says %d", runtime.Version(), want, known)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	// The same program, built by a version that the table does not have.
	unknown := strings.NewReader(strings.ReplaceAll(string(content), runtime.Version(), strings.Repeat("x", len(runtime.Version()))))
	if got, err := goidOffset(unknown); got != want || err != nil {
		t.Errorf("%d %v", got, err)
	}
	if _, err := GoidOffset(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := GoidOffset(1 << 30); !errors.Is(err, ErrNoProcess) {
		t.Error(err)
	}
	sleep := exec.Command("sleep", "100")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleep.Process.Kill(); _ = sleep.Wait() }()
	if _, err := GoidOffset(sleep.Process.Pid); !errors.Is(err, ErrNoGoid) {
		t.Error(err)
	}
}

func TestRelease(t *testing.T) {
	for version, want := range map[string]string{
		"go1.26": "go1.26", "go1.26.8": "go1.26", "go1.26rc1": "go1.26", "go1.25.0": "go1.25",
		"go1.27-devel_0123abc": "", "devel go1.27": "", "go1.26.8 X:nodwarf5": "", "": "", "xxx": "",
	} {
		if got := release(version); got != want {
			t.Errorf("%q: %q", version, got)
		}
	}
}
