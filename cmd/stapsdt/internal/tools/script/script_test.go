//go:build linux

package script

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile are names that a file of unknown origin may have.
const hostile = "a'\n\"$(touch pwned)`touch pwned`;|\\%s"

func hostileScript(t *testing.T, name string) (*Script, string) {
	dir := t.TempDir()
	args := sdt.ParseArgs(elf.EM_X86_64, "-4@%edi 8@%rsi -8@$7 8f@big(%rip) 1@-3(%rbp) 4@(%rax,%rbx,4) 1@%ah 8@$4096 8@%xmm0")
	args[0].Name, args[1].Name = name, name
	file := &File{Path: filepath.Join(dir, strings.ReplaceAll(name, "/", "_")), SHA256: "12ab"}
	return &Script{
		Specs: name, PIDs: []int{12, 34}, Texts: []string{"arg1", "arg7"},
		Sites: []Site{
			{Site: sdt.Site{Provider: name, Name: name, Offset: 0x40, SemaphoreOffset: 0x80, Args: args}, File: file, Deltas: []int64{3: 0x1000, 8: 0}},
			{Site: sdt.Site{Provider: name, Name: name, Offset: 0x50}, File: file},
		},
	}, dir
}

// TestHostileTracefs: the shell runs nothing but the definitions, whatever the names are.
func TestHostileTracefs(t *testing.T) {
	s, dir := hostileScript(t, hostile)
	text, skipped := s.Tracefs()
	head, _, ok := strings.Cut(text, "\n# shellcheck")
	require.True(t, ok, text)
	const stubs = "file() { printf 'file %s %s\\n' \"$@\"; }\ndefine() { printf '%s|%s\\n' \"$@\"; }\n"
	path := filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(path, []byte(stubs+head+"\ndefine_all\n"), 0o600))
	cmd := exec.Command("sh", "-eu", path)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, text)
	name := unique("stapsdt_"+hostile, maxEvent, nil)
	event := unique(hostile, maxEvent, nil)
	want := fmt.Sprintf("file %s 12ab\n%s/%s|0x40(0x80) arg0=%%di:s32 arg1=+0(%%si):string arg2=\\7:s64 arg3=@+0x1040:x64 arg4=-3(%%bp):u8 arg7=@0x1000:string\n%[2]s/%[3]s_2|0x50\n",
		s.Sites[0].File.Path, name, event)
	assert.Equal(t, want, string(out))
	_, err = os.Stat(filepath.Join(dir, "pwned"))
	assert.Error(t, err, "it ran a command in a name")
	assert.Len(t, skipped, 3)
	assert.NotContains(t, strings.Join(skipped, ""), "\n")
}

// TestNoSHA256Sum: without sha256sum, the script does not say that a file has changed.
func TestNoSHA256Sum(t *testing.T) {
	functions, _, _ := strings.Cut(body, "\ncase ${1:-}")
	cmd := exec.Command("/bin/sh", "-c", "pids= events= instance=\n"+functions+"\nfile /bin/sh 12ab")
	cmd.Env = []string{"PATH=/none"}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "sha256sum is missing\n", string(out))
}

// TestHostileBpftrace: what cannot be written safely is left out, with the reason.
func TestHostileBpftrace(t *testing.T) {
	s, _ := hostileScript(t, hostile)
	text, skipped := s.Bpftrace()
	for line := range strings.Lines(text) {
		assert.True(t, strings.HasPrefix(line, "//"), "it has %q", line)
	}
	if assert.Len(t, skipped, 1) {
		assert.Contains(t, skipped[0], "no way to write this name")
	}

	s, _ = hostileScript(t, `50%\é`)
	s.Sites = s.Sites[1:]
	s.Sites[0].Args = sdt.ParseArgs(elf.EM_X86_64, "-4@%edi 8@%rsi 1@%al 4@%ecx 2@%dx 8@%r8 8@%r9")
	s.Sites[0].File.Path = "/a dir/b"
	text, _ = s.Bpftrace()
	_, clause, _ := strings.Cut(text, "uint64)\n")
	want := `usdt:"/a dir/b":"50%\\\\é":"50%\\\\é"
/pid == 12 || pid == 34/
{
	// of 7 arguments: bpftrace 0.17 reads no more
	printf("%d %s 50%s\\é:50%s\\é arg0=%ld arg1=\"%s\" arg2=%lu arg3=%lu arg4=%lu arg5=%lu ...\n", pid, comm, "%", "%", arg0, str(arg1), arg2, arg3, arg4, arg5);
}
`
	assert.Equal(t, want, clause)
}

// TestUnique: names that tracefs accepts, and no two of them equal.
func TestUnique(t *testing.T) {
	long := strings.Repeat("x", 100)
	var names []string
	for name, want := range map[string]string{
		"a-b": "a_b", "1a": "_1a", "": "_", "ä": "_", "common_pid": "common_pid_2", long: long[:31],
	} {
		assert.Equal(t, want, unique(name, maxArgument, nil), name)
	}
	for range 12 {
		names = append(names, unique(long, maxArgument, names))
	}
	assert.Equal(t, long[:29]+"_2", names[1], names)
	assert.Equal(t, long[:28]+"_12", names[11], names)
}
