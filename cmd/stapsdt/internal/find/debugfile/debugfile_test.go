//go:build linux

package debugfile

import (
	"debug/elf"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tool runs a program of the toolchain.
func tool(t testing.TB, name string, args ...string) {
	t.Helper()
	path := testenv.NeedsTool(t, name, "gcc, binutils")
	out, err := exec.Command(path, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// separated is a program, without its debug information, and the file that has it.
type separated struct {
	program, debug string
	id             []byte
	place          string // of the file below the directory for build IDs
}

// build builds a program in C, with or without a build ID, and separates its debug information.
func build(t testing.TB, flags ...string) *separated {
	t.Helper()
	dir := t.TempDir()
	s := &separated{program: filepath.Join(dir, "app"), debug: filepath.Join(t.TempDir(), "full")}
	source := filepath.Join(dir, "app.c")
	require.NoError(t, os.WriteFile(source, []byte("int main(int n, char **v) { return n; }\n"), 0o600))
	tool(t, "gcc", append([]string{"-g", "-O1", "-o", s.program, source}, flags...)...)
	tool(t, "objcopy", "--only-keep-debug", s.program, s.debug)
	tool(t, "strip", s.program)
	s.id = BuildID(s.open(t).File)
	if s.id != nil {
		text := hex.EncodeToString(s.id)
		s.place = filepath.Join(".build-id", text[:2], text[2:]+".debug")
	}
	return s
}

// link adds a .gnu_debuglink to a file that is called app.debug.
func (s *separated) link(t testing.TB) {
	t.Helper()
	named := filepath.Join(t.TempDir(), "app.debug")
	copyFile(t, s.debug, named)
	tool(t, "objcopy", "--add-gnu-debuglink="+named, s.program)
}

// open opens the program as a Program of this process.
func (s *separated) open(t testing.TB) *Program {
	t.Helper()
	f, err := elf.Open(s.program)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return &Program{File: f, Path: s.program, UID: uint32(os.Geteuid())}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

// finder returns a Finder with a directory of its own in place of /usr/lib/debug.
func finder(t testing.TB) *Finder {
	f := New()
	f.Directory = t.TempDir()
	return f
}

// found returns the path of the debug file.
func found(t testing.TB, f *Finder, p *Program, wanted Content) string {
	t.Helper()
	file, err := f.Find(p, wanted)
	require.NoError(t, err)
	require.True(t, DWARF.In(file.ELF) && Symbols.In(file.ELF))
	require.NoError(t, file.Close())
	return file.Path
}

func noBuildID(t testing.TB) *separated {
	s := build(t, "-Wl,--build-id=none")
	require.Nil(t, s.id)
	return s
}

// TestPlaces: a file is found in each place in which gdb looks, by the build ID or the link.
func TestPlaces(t *testing.T) {
	for _, wanted := range []Content{DWARF, Symbols} {
		s, f := build(t), finder(t)
		at := filepath.Join(f.Directory, s.place)
		copyFile(t, s.debug, at)
		assert.Equal(t, at, found(t, f, s.open(t), wanted))
	}
	for _, s := range []*separated{build(t), noBuildID(t)} {
		f, directory := finder(t), filepath.Dir(s.program)
		s.link(t)
		for _, at := range []string{
			filepath.Join(f.Directory, directory, "app.debug"), filepath.Join(directory, ".debug/app.debug"),
			filepath.Join(directory, "app.debug"), // which is the first of them
		} {
			_, err := f.Find(s.open(t), DWARF)
			if assert.Equal(t, filepath.Dir(at) == filepath.Join(f.Directory, directory), err != nil) && err != nil {
				assert.ErrorContains(t, err, "no app.debug beside it, in .debug, or in "+filepath.Join(f.Directory, directory))
			}
			copyFile(t, s.debug, at)
			assert.Equal(t, at, found(t, f, s.open(t), DWARF))
		}
	}
}

// TestSeen: below the root of a process the same places are looked in, and then those of the machine.
func TestSeen(t *testing.T) {
	s, f := build(t), finder(t)
	at := filepath.Join(f.Directory, s.place)
	copyFile(t, s.debug, at)
	p := s.open(t)
	p.PID, p.Path = os.Getpid(), p.Path+" (deleted)"
	assert.Equal(t, at, found(t, f, p, DWARF))
	sleep := exec.Command("sleep", "60")
	require.NoError(t, sleep.Start())
	require.NoError(t, sleep.Process.Kill())
	_ = sleep.Wait()
	p.PID = sleep.Process.Pid
	assert.Equal(t, at, found(t, f, p, DWARF), "a process that has ended has no root")
}

// TestRoot: the root directory of a process comes before that of the machine, and a link there leads
// to a file below it.
func TestRoot(t *testing.T) {
	testenv.NeedsRoot(t)
	s, inside := build(t), t.TempDir()
	source := filepath.Join(t.TempDir(), "wait.c")
	require.NoError(t, os.WriteFile(source, []byte("#include <unistd.h>\nint main(void) { return pause(); }\n"), 0o600))
	tool(t, "gcc", "-static", "-o", inside+"/wait", source)
	process := exec.Command("/wait")
	process.Dir, process.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: inside}
	require.NoError(t, process.Start())
	defer func() { _ = process.Process.Kill(); _ = process.Wait() }()

	p, f := s.open(t), New()
	p.PID, p.Path, f.Directory = process.Process.Pid, "/bin/app", "/debug"
	copyFile(t, s.debug, inside+"/elsewhere/full")
	at := filepath.Join("/debug", s.place)
	require.NoError(t, os.MkdirAll(filepath.Dir(inside+at), 0o755))
	require.NoError(t, os.Symlink("/elsewhere/full", inside+at))
	require.Equal(t, at, found(t, f, p, DWARF))
	require.NoError(t, os.Remove(inside+at))
	require.NoError(t, os.Symlink("../../../../../../../../../.."+s.debug, inside+at))
	_, err := f.Find(p, DWARF)
	require.EqualError(t, err, "there is no "+at)
}

// TestCompressed: compressed debug information is read.
func TestCompressed(t *testing.T) {
	for _, kind := range []string{"zlib-gnu", "zlib-gabi", "zstd"} {
		s, f := build(t), finder(t)
		at := filepath.Join(f.Directory, s.place)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if out, err := exec.Command("objcopy", "--compress-debug-sections="+kind, s.debug, at).CombinedOutput(); err != nil {
			t.Logf("%s: %s", kind, out) // an objcopy without zstd
			continue
		}
		file, err := f.Find(s.open(t), DWARF)
		require.NoError(t, err)
		data, err := debuginfo.Read(file.ELF, 1<<20)
		require.NoError(t, err, kind)
		assert.NotNil(t, data)
		require.NoError(t, file.Close())
	}
}

// TestDebugUnfit: a file that does not belong to the program, or is something else, is not used, and the
// error tells which and why.
func TestDebugUnfit(t *testing.T) {
	s, other := build(t), build(t, "-O0")
	bare := noBuildID(t)
	bare.link(t)
	fifo := func(t *testing.T, at string) { require.NoError(t, unix.Mkfifo(at, 0o600)) }
	file := func(from string) func(*testing.T, string) {
		return func(t *testing.T, at string) { copyFile(t, from, at) }
	}
	changed := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, at string) {
			b, err := os.ReadFile(s.debug)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(at, change(b), 0o600))
		}
	}
	for name, c := range map[string]struct {
		put  func(*testing.T, string)
		want string
	}{
		"another build ID": {file(other.debug), " has another build ID"},
		"no build ID":      {file(bare.debug), " has no build ID"},
		"the program":      {file(s.program), " has no DWARF"},
		"a pipe":           {fifo, " is not used: it is not a regular file"},
		"truncated":        {changed(func(b []byte) []byte { return b[:1000] }), " is not used: ELF headers: "},
		"no ELF":           {changed(func([]byte) []byte { return []byte("x") }), " is not used: "},
		"a directory":      {func(t *testing.T, at string) { require.NoError(t, os.Mkdir(at, 0o755)) }, " is not used: is a directory"},
		"another user's": {func(t *testing.T, at string) {
			copyFile(t, s.debug, at)
			testenv.NeedsRoot(t)
			require.NoError(t, os.Chown(at, 12345, -1))
		}, " is not used: it belongs to another user"},
		"an alternative": {func(t *testing.T, at string) {
			content := filepath.Join(t.TempDir(), "content")
			require.NoError(t, os.WriteFile(content, []byte("other\x00id"), 0o600))
			tool(t, "objcopy", "--add-section", ".gnu_debugaltlink="+content, s.debug, at)
		}, " needs the file that .gnu_debugaltlink names, which is not supported"},
		"moved code": {func(t *testing.T, at string) {
			tool(t, "objcopy", "--change-section-address", ".text+0x1000", s.debug, at)
		}, " describes code at other addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			f := finder(t)
			at := filepath.Join(f.Directory, s.place)
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
			c.put(t, at)
			_, err := f.Find(s.open(t), DWARF)
			require.ErrorContains(t, err, at+c.want)
		})
	}
	t.Run("another user's program", func(t *testing.T) {
		testenv.NeedsRoot(t)
		f, p := finder(t), s.open(t)
		p.UID = 12345
		at := filepath.Join(f.Directory, s.place)
		copyFile(t, s.debug, at)
		require.NoError(t, os.Chown(at, 12345, -1))
		require.Equal(t, at, found(t, f, p, DWARF))
	})
	t.Run("another checksum", func(t *testing.T) {
		f, at := finder(t), filepath.Join(filepath.Dir(bare.program), "app.debug")
		b, err := os.ReadFile(bare.debug)
		require.NoError(t, err)
		b[len(b)-1]++
		require.NoError(t, os.WriteFile(at, b, 0o600))
		_, err = f.Find(bare.open(t), DWARF)
		require.EqualError(t, err, at+" has another checksum than .gnu_debuglink")
		b[len(b)-1]--
		require.NoError(t, os.WriteFile(at, b, 0o600))
		require.Equal(t, at, found(t, f, bare.open(t), DWARF), "a checksum was kept of an earlier content")
	})
	t.Run("none", func(t *testing.T) {
		f := finder(t)
		_, err := f.Find(s.open(t), DWARF)
		require.EqualError(t, err, "there is no "+filepath.Join(f.Directory, s.place))
		_, err = f.Find(noBuildID(t).open(t), DWARF)
		require.EqualError(t, err, "it has neither a build ID nor a .gnu_debuglink to find its debug file by")
	})
}

// TestLinkNames: a link cannot lead out of the directory.
func TestLinkNames(t *testing.T) {
	for name, want := range map[string]bool{"app.debug": true, "../app.debug": false, "/etc/passwd": false, "..": false, "": false} {
		s := noBuildID(t)
		content := append([]byte(name), make([]byte, 4-len(name)%4)...)
		path := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.WriteFile(path, append(content, 1, 2, 3, 4), 0o600))
		tool(t, "objcopy", "--add-section", ".gnu_debuglink="+path, s.program)
		got := linkOf(s.open(t).File)
		if assert.Equal(t, want, got != nil, name) && want {
			assert.Equal(t, link{name, 0x04030201}, *got)
		}
	}
}

// TestHuge: the checksum of a file that is as large as it claims is not computed, and neither are
// those of ever more files of one user. The headers of sections that claim too much cost nothing.
func TestHuge(t *testing.T) {
	s := noBuildID(t)
	s.link(t)
	at := filepath.Join(filepath.Dir(s.program), "app.debug")
	copyFile(t, s.debug, at)
	require.NoError(t, os.Truncate(at, maxSummed+1))
	f := finder(t)
	_, err := f.Find(s.open(t), DWARF)
	require.EqualError(t, err, at+" is too large for its checksum to be compared")

	p := s.open(t)
	for _, limit := range []int64{maxSummed, maxLimited} {
		f := New()
		if limit == maxLimited {
			f.Limit()
		}
		p.PID = os.Getpid()
		assert.True(t, f.sums.spend(p, limit-1))
		assert.True(t, f.sums.spend(p, 1))
		assert.False(t, f.sums.spend(p, 1))
		p.PID = 0
		assert.True(t, f.sums.spend(p, 1), "the user has named the program")
	}

	claims := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_NOTE), Size: sparse.Size}, elf.Section64{Name: 20, Type: uint32(elf.SHT_PROGBITS), Size: sparse.Size})
	_, err = claims.WriteAt([]byte("\x00.note.gnu.build-id\x00.gnu_debuglink\x00"), 1<<20)
	require.NoError(t, err)
	opened, err := elf.NewFile(claims)
	require.NoError(t, err)
	require.NotNil(t, opened.Section(".gnu_debuglink"))
	sparse.Cost(t, func() {
		assert.Nil(t, BuildID(opened))
		assert.Nil(t, linkOf(opened))
	})
}

// TestNamed: a file that the user has named is found first, wherever it is, if it belongs to the
// program, and is otherwise reported.
func TestNamed(t *testing.T) {
	s, other := build(t), build(t, "-O0")
	f, err := Named([]string{other.debug, s.debug})
	require.NoError(t, err)
	f.Directory = t.TempDir()
	copyFile(t, s.debug, filepath.Join(f.Directory, s.place))
	for range 2 {
		require.Equal(t, s.debug, found(t, f, s.open(t), DWARF))
	}
	f.Note(s.open(t))
	require.EqualError(t, f.Stray(), "--debug-file "+other.debug+" belongs to no program or library there: none has its build ID, "+
		hex.EncodeToString(other.id)+", or its checksum in .gnu_debuglink")
	f.Note(other.open(t))
	require.NoError(t, f.Stray())
	f.Close()
	_, err = Named([]string{"/proc/self/exe"})
	require.ErrorContains(t, err, "--debug-file /proc/self/exe: a link in /proc is not followed")
	require.ErrorContains(t, err, "give the path that readlink -f /proc/self/exe prints")

	bare := noBuildID(t)
	bare.link(t)
	f, err = Named([]string{bare.debug})
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, bare.debug, found(t, f, bare.open(t), Symbols), "by its checksum, under another name")
	f.Directory = t.TempDir()
	_, err = f.Find(s.open(t), DWARF)
	require.EqualError(t, err, bare.debug+" has no build ID")
	_, err = f.Find(noBuildID(t).open(t), DWARF)
	require.EqualError(t, err, bare.debug+" may be of another program: this one has neither a build ID nor a .gnu_debuglink")
	require.ErrorContains(t, f.Stray(), "none has its checksum in .gnu_debuglink")

	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	stripped := s.program
	for path, want := range map[string]string{
		pipe: ": it is not a regular file", "/nonexistent": ": no such file or directory", "/etc/passwd": ": ELF headers: bad magic number '[114 111 111 116]' in record at byte 0x0",
		stripped: " has neither DWARF nor symbols",
	} {
		_, err := Named([]string{path})
		assert.EqualError(t, err, "--debug-file "+path+want)
	}
}
