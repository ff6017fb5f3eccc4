//go:build linux

package debugfile

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
	"github.com/go-stapsdt/stapsdt/internal/fusetest"

	"github.com/stretchr/testify/require"
)

// TestDebugFUSE: a link to a file of a FUSE file system is not followed to its content, and a server that
// does not answer stops nothing.
func TestDebugFUSE(t *testing.T) {
	fs, s, f := fusetest.Mount(t), build(t), finder(t)
	content, err := os.ReadFile(s.debug)
	require.NoError(t, err)
	fs.Serve(content)
	at := filepath.Join(f.Directory, s.place)
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(fs.Dir, "file"), at))
	for _, pid := range []int{0, os.Getpid()} {
		p := s.open(t)
		p.PID = pid
		_, err = f.Find(p, DWARF)
		require.EqualError(t, err, at+" is not used: it is on a FUSE file system")
	}
	fs.Hung.Store(true)
	_, err = f.Find(s.open(t), DWARF)
	require.EqualError(t, err, at+" is not used: its file system does not answer")
}

// FuzzCheck: no file makes a comparison fail, or cost much, and none without the build ID or the
// checksum belongs to a program.
func FuzzCheck(f *testing.F) {
	names := "\x00.note.gnu.build-id\x00.gnu_debuglink\x00"
	note := "\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00--------------------"
	f.Add(sparse.Bytes(f, []byte(note+names), elf.Section64{Name: uint32(len(note)) + 1, Type: uint32(elf.SHT_NOTE)}))
	f.Add(sparse.Bytes(f, []byte("app.debug\x00\x00\x00\x01\x02\x03\x04"+names), elf.Section64{Name: 16 + 20, Type: uint32(elf.SHT_PROGBITS)}))
	f.Fuzz(func(t *testing.T, file []byte) {
		sparse.Cost(t, func() {
			opened, err := elffile.New(bytes.NewReader(file))
			if err != nil {
				return
			}
			is := identityOf(opened)
			if len(is.id) > 256 || is.link != nil && filepath.Base(is.link.name) != is.link.name {
				t.Errorf("%x %+v", is.id, is.link)
			}
			unread := errors.New("unread")
			for _, program := range []identity{is, {}, {id: []byte("another")}} {
				err := program.check(opened, opened, func() (uint32, error) { return 0, unread })
				if err == nil && (len(program.id) == 0 || !bytes.Equal(program.id, is.id)) {
					t.Error("it belongs to the program")
				}
			}
			_ = DWARF.lacks(opened)
			_ = Symbols.lacks(opened)
		})
	})
}
