//go:build linux

package gotable

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// frameRow matches a row of .debug_frame, as llvm-dwarfdump prints it: an address, and the distance of the canonical frame address from
// the stack pointer.
var frameRow = regexp.MustCompile(`(?m)^ +0x([0-9a-f]+): CFA=\w*SP(?:\+(\d+))?:?`)

// TestStretches: the size of the stack agrees with .debug_frame, at all rows of all functions, and the stretches of a function are its
// code without a gap.
func TestStretches(t *testing.T) {
	dump := testenv.NeedsTool(t, "llvm-dwarfdump", "llvm")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(1, \"two\") }\n"), 0o600))
	out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(dump, "--debug-frame", program).Output()
	require.NoError(t, err)
	f, err := elf.Open(program)
	require.NoError(t, err)
	defer f.Close()
	table, err := New(f)
	require.NoError(t, err)
	returnAddress := 0
	if runtime.GOARCH == "amd64" {
		returnAddress = 8 // which the call has put on the stack
	}
	compared, known := 0, map[uint64][]Stretch{}
	for _, m := range frameRow.FindAllSubmatch(out, -1) {
		pc, err := strconv.ParseUint(string(m[1]), 16, 64)
		require.NoError(t, err)
		frame, _ := strconv.Atoi(string(m[2]))
		at, ok := table.At(pc)
		if !ok || at.Assembly {
			continue
		}
		if known[at.Entry] == nil {
			all := table.Stretches(at.Entry)
			end := at.Entry
			for _, s := range all {
				require.Equal(t, end, s.Start)
				end = s.End
			}
			known[at.Entry] = all
		}
		found := false
		for _, s := range known[at.Entry] {
			if s.Start <= pc && pc < s.End {
				require.Equal(t, frame, int(s.Stack)+returnAddress, "%#x in %v", pc, at.Names)
				require.Equal(t, at.Call, s.Call, "%#x in %v", pc, at.Names)
				require.Len(t, s.Callers, len(at.Names)-1, "%#x in %v", pc, at.Names)
				compared, found = compared+1, true
			}
		}
		require.True(t, found, "%#x in %v", pc, at.Names)
	}
	require.Greater(t, compared, 3000)
}
