//go:build linux && (amd64 || arm64)

package process

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The users of the race.
const (
	attackerUID = 23456
	victimUID   = 23457
)

// as runs a child as another user. Its test binary is a copy that the user may
// execute.
func as(uid uint32, binary string) tracetest.ChildOption {
	return func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0] = binary, binary
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
}

// TestRaceInSharedDirectory: while a program loads, again and again, another user
// puts directories, links, files and FIFOs in the place of its directory, with a file
// in them that would be mapped, and changes that file.
func TestRaceInSharedDirectory(t *testing.T) {
	testenv.NeedsRoot(t)
	loadsOfRace := 1000
	if testing.Short() {
		loadsOfRace = 100
	}
	for name, c := range map[string]struct {
		owner int
		mode  os.FileMode
	}{
		"a sticky directory":       {0, 0o777 | os.ModeSticky},
		"the attacker's directory": {attackerUID, 0o777},
	} {
		t.Run(name, func(t *testing.T) {
			binary, tmp := publicDirectory(t)
			shared := filepath.Join(tmp, "shared")
			require.NoError(t, os.Mkdir(shared, 0o700))
			require.NoError(t, os.Chmod(shared, c.mode))
			require.NoError(t, os.Chown(shared, c.owner, c.owner))
			env := tracetest.WithEnv("STAPSDT_DIR=", "XDG_RUNTIME_DIR=", "TMPDIR="+shared)
			target := fmt.Sprintf("%s/stapsdt-%d", shared, victimUID)

			victim := tracetest.Child(t, "victim", env, as(victimUID, binary), tracetest.WithArgs(target, fmt.Sprint(loadsOfRace)))
			file := victim.Expect("file ", testenv.Patience)
			attacker := tracetest.Child(t, "attacker", env, as(attackerUID, binary), tracetest.WithArgs(target, file))
			attacker.Expect("attacking", testenv.Patience)
			victim.Say("go")
			report := victim.Expect("loads ", 2*testenv.Patience)
			require.NoError(t, victim.Wait(testenv.Patience))
			attacker.Hangup()
			tricks := attacker.Expect("tricks ", testenv.Patience)
			for _, line := range append(victim.Lines(), attacker.Lines()...) {
				require.NotContains(t, line, "problem:")
			}
			var loads, files, memory int
			_, err := fmt.Sscanf(report, "%d files %d memory %d", &loads, &files, &memory)
			require.NoError(t, err)
			t.Log(report, "tricks", tricks)
			require.GreaterOrEqual(t, loads, loadsOfRace)
			if !testing.Short() {
				require.NotZero(t, files, "the attacker always wins: there is no race")
				require.NotZero(t, memory, "the attacker never wins: there is no race")
			}
		})
	}
}

// publicDirectory makes a directory that every user can reach, with the test binary
// in it.
func publicDirectory(t *testing.T) (binary, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "stapsdt-attack-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	binary = filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(binary, content, 0o755))
	return binary, dir
}

// victimChild loads LOADS times, or until both it and the attacker have won once if there are many, and looks at what it has
// mapped.
//
//	DIRECTORY LOADS
func victimChild(args []string) {
	memory := newFaulty(args[0], stapsdt.WithMemfd())
	memory.begin()
	image := content(memory.p.Path())
	memory.p.Close()
	own := newFaulty(args[0])
	own.begin()
	file := own.p.Path()
	own.p.Close()
	fmt.Println("file", filepath.Base(file))
	waitLine()

	memory.report()
	own.report()
	loads, files := 0, 0
	least, _ := strconv.Atoi(args[1])
	start := time.Now()
	decided := func() bool { return least < 1000 || files > 0 && files < loads }
	for ; loads < least || !decided() && time.Since(start) < testenv.Patience; loads++ {
		// A file of ours takes no part in the race: it must be made again.
		os.Remove(file)
		os.Remove(args[0])
		f := newFaulty("") // the directory is the one in TMPDIR
		f.begin()
		if f.p.Path() == file {
			files++
		}
		for range 2 {
			f.check(len(mapped("faulty")) == 1, "mapped: %q", mapped("faulty"))
			for _, line := range mapped("faulty") {
				f.check(bytes.HasPrefix(image, mappedBytes(line, len(image))), "not our bytes: %s", line)
			}
			time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
		}
		f.idle()
		f.p.Close()
		f.report()
	}
	fmt.Println("loads", loads, "files", files, "memory", loads-files)
}

// mappedBytes reads what is mapped, by a line of maps, but no more than size.
func mappedBytes(line string, size int) []byte {
	var start, end int64
	fmt.Sscanf(line, "%x-%x", &start, &end)
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return []byte(err.Error())
	}
	defer memory.Close()
	mapped := make([]byte, min(end-start, int64(size)))
	if _, err := memory.ReadAt(mapped, start); err != nil {
		return []byte(err.Error())
	}
	return mapped
}

// attackerChild plays tricks with another user's directory until it is hung up on.
//
//	DIRECTORY FILE
func attackerChild(args []string) {
	syscall.Umask(0)
	a := attack{target: args[0], file: args[1], own: args[0] + ".attacker"}
	// Everybody can tell what is in the image: it is its definition's.
	same := newFaulty(a.own, stapsdt.WithMemfd())
	if err := errors.Join(same.p.Load(), os.Mkdir(a.own, 0o755)); err != nil {
		fmt.Println("problem:", err)
	}
	a.good = content(same.p.Path())
	a.evil = bytes.Repeat([]byte{0xcc}, len(a.good))
	go a.flip()
	fmt.Println("attacking")
	over := make(chan struct{})
	go func() {
		waitLine()
		close(over)
	}()
	for tricks := 0; ; tricks++ {
		select {
		case <-over:
			fmt.Println("tricks", tricks)
			return
		default:
			a.play(rand.IntN(8))
			time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
			a.look()
			a.clear()
		}
	}
}

type attack struct {
	target, file, own string
	good, evil        []byte
}

// flip changes the attacker's file in the target's place between what would be
// mapped and what then should be, without pause.
func (a *attack) flip() {
	for {
		if fd, err := unix.Open(filepath.Join(a.target, a.file), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			unix.Pwrite(fd, a.good, 0)
			time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
			unix.Pwrite(fd, a.evil, 0)
			unix.Close(fd)
		}
		time.Sleep(time.Microsecond)
	}
}

// play puts something in the target's place. That it fails is the rule.
func (a *attack) play(trick int) {
	bait := filepath.Join(a.own, a.file)
	switch trick {
	case 0:
		os.Mkdir(a.target, 0o777)
		os.WriteFile(filepath.Join(a.target, a.file), a.evil, 0o444)
	case 1:
		os.Mkdir(a.target, 0o755)
		os.WriteFile(filepath.Join(a.target, a.file), a.good, 0o644)
	case 2:
		os.WriteFile(bait, a.good, 0o644)
		os.Symlink(a.own, a.target)
	case 3:
		os.WriteFile(a.target, a.good, 0o644)
	case 4:
		unix.Mkfifo(a.target, 0o666)
	case 5:
		os.WriteFile(bait, a.good, 0o644)
		os.Link(bait, a.target)
	case 6: // where the directory around it is not sticky, theirs can be moved
		os.WriteFile(bait, a.good, 0o644)
		unix.Renameat2(unix.AT_FDCWD, a.own, unix.AT_FDCWD, a.target, unix.RENAME_EXCHANGE)
	case 7:
		os.Rename(a.target, fmt.Sprintf("%s.%d", a.own, rand.Int()))
		os.Symlink("/proc/self", a.target)
	}
}

// look tries to read what the other user has there.
func (a *attack) look() {
	for _, path := range []string{a.target, filepath.Join(a.target, a.file), a.own} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil && st.Uid == victimUID {
			fmt.Println("problem: the attacker can read", path)
		}
		unix.Close(fd)
	}
}

// clear makes room for the next trick.
func (a *attack) clear() {
	var st unix.Stat_t
	if unix.Lstat(a.target, &st) == nil && st.Uid == attackerUID {
		os.RemoveAll(a.target)
	}
	if unix.Lstat(a.own, &st) == nil && st.Uid == victimUID { // it was exchanged
		os.Rename(a.own, fmt.Sprintf("%s.%d", a.own, rand.Int()))
	}
	os.Mkdir(a.own, 0o755)
}

// waitLine waits for a line, or the end, of standard input.
func waitLine() {
	for b := make([]byte, 1); ; {
		n, err := os.Stdin.Read(b)
		if n == 0 || err != nil || b[0] == '\n' {
			return
		}
	}
}

// TestUnmappedUser: in a user namespace in which neither this user nor the owner of
// a file has a number, they seem to be the same, and the file is not used.
func TestUnmappedUser(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NeedsNamespaces(t, "user", unix.CLONE_NEWUSER)
	binary, public := publicDirectory(t)
	dir := public + "/images"
	load := func(attributes *syscall.SysProcAttr) string {
		path, _ := placeAs(t, binary, attributes, "STAPSDT_DIR="+dir, "TMPDIR=/nowhere")
		return path
	}
	file := load(nil)
	require.Equal(t, dir, filepath.Dir(file))
	require.NoError(t, os.Chown(file, 20001, 20001))
	require.NoError(t, os.Chmod(file, 0o444))
	require.NoError(t, os.Chown(dir, 20001, 20001))
	require.NoError(t, os.Chmod(dir, 0o755))
	require.Contains(t, load(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}), "its owner cannot be determined")
	// Where every user has a number, the user nobody is one like the others.
	require.NoError(t, os.Chown(file, 65534, 65534))
	require.NoError(t, os.Chown(dir, 65534, 65534))
	require.Equal(t, file, load(&syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}))
}

// TestNamesStayInTheirDirectory: whatever a name looks like, it names one file in
// the directory it was meant for.
func TestNamesStayInTheirDirectory(t *testing.T) {
	for _, name := range []string{
		".", "..", "...", "-", "-rf", "--help", "~", "~root", "$HOME", "`id`", "%s%n%d", "%", `\`, `..\..\etc`, "a'b", "a;b", "a|b", "&", "!", "#", ".hidden",
		"con", "名前", "é", "e\u0301", "\U0001F600", strings.Repeat("a", stapsdt.MaxName), strings.Repeat("é", stapsdt.MaxName/2), strings.Repeat("\U0001F600", stapsdt.MaxName/4),
	} {
		t.Run("", func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "images")
			p := stapsdt.NewProvider(name, stapsdt.WithDir(dir))
			probe, err := p.AddProbe(name, stapsdt.Int32)
			require.NoError(t, err, "%q", name)
			load(t, p)
			require.Equal(t, dir, filepath.Dir(p.Path()), "%q", name)
			require.Len(t, entries(t, base), 1, "%q", name)
			files := entries(t, dir)
			require.Equal(t, []string{filepath.Base(p.Path())}, files)
			require.LessOrEqual(t, len(files[0]), 255)
			notes := tracetest.Must(sdt.ReadFile(p.Path()))(t)
			require.Equal(t, name, notes[0].Provider)
			require.Equal(t, name, notes[0].Name)
			require.NoError(t, probe.Fire(1))
		})
	}
	for _, name := range []string{"", "/", "../x", "/etc/passwd", "a/b", "a\x00b", "a\nb", "a\rb", "a\x1b[2Jb", "\xff", strings.Repeat("a", stapsdt.MaxName+1)} {
		base := t.TempDir()
		err := stapsdt.NewProvider(name, stapsdt.WithDir(filepath.Join(base, "images"))).Load()
		require.ErrorIs(t, err, stapsdt.ErrName, "%q", name)
		require.Empty(t, entries(t, base), "%q", name)
		var e *stapsdt.Error
		require.True(t, errors.As(err, &e))
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list := tracetest.Must(os.ReadDir(dir))(t)
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}
