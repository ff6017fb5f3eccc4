//go:build linux

package script

import (
	"debug/elf"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
)

// hostile are names that a file of unknown origin may have.
const hostile = "a'\n\"$(touch pwned)`touch pwned`;|\\%s"

func hostileScript(t *testing.T, name string) (*Script, string) {
	dir := t.TempDir()
	args := sdt.ParseArgs(elf.EM_X86_64, "-4@%edi 8@%rsi -8@$7 8f@big(%rip) 1@-3(%rbp) 4@(%rax,%rbx,4) 1@%ah 8@$4096 8@%xmm0")
	args[0].Name, args[1].Name = name, name
	file := &File{Path: filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))}
	return &Script{
		Specs: name, PIDs: []int{12, 34}, Texts: []string{"arg1", "arg7"},
		Sites: []Site{
			{Site: sdt.Site{Provider: name, Name: name, Offset: 0x40, SemaphoreOffset: 0x80, Args: args}, File: file},
			{Site: sdt.Site{Provider: name, Name: name, Offset: 0x50}, File: file},
		},
	}, dir
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
