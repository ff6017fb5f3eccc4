// Package sparse makes files whose headers claim more than the files contain, for tests.
package sparse

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Size exceeds the limit of every table of a file. A section of this size takes no space on the disk.
const Size = 512 << 20

// File returns a file that claims sections of these sizes, with almost nothing on the disk. The
// first section has the names of the sections.
func File(t testing.TB, sections ...elf.Section64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	var b bytes.Buffer
	header := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: 64, Ehsize: 64, Shentsize: 64, Shnum: uint16(1 + len(sections)), Shstrndx: 1}
	copy(header.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	at := uint64(1 << 20)
	for i := range sections {
		sections[i].Off = at
		at += sections[i].Size
	}
	for _, v := range []any{header, elf.Section64{}, sections} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteAt(b.Bytes(), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(at)); err != nil {
		t.Fatal(err)
	}
	return f
}

// Cost fails if a function allocates more than 64 MB.
func Cost(t testing.TB, f func()) {
	t.Helper()
	if used := Allocated(f); used > 64<<20 {
		t.Errorf("it allocated %d MB", used>>20)
	}
}

// Allocated returns the number of bytes that a function allocates, whether it keeps them
// or not.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Bytes returns a file with these sections of the same contents, whose names are at the beginning.
func Bytes(t testing.TB, contents []byte, sections ...elf.Section64) []byte {
	t.Helper()
	sections = append([]elf.Section64{{Type: uint32(elf.SHT_STRTAB), Size: uint64(len(contents))}}, sections...)
	for i := range sections {
		sections[i].Size = uint64(len(contents))
	}
	f := File(t, sections...)
	b := make([]byte, 0, 1<<12)
	head := make([]byte, 64+64*(1+len(sections)))
	if _, err := f.ReadAt(head, 0); err != nil {
		t.Fatal(err)
	}
	// All sections have the contents, which follow the headers.
	for i := range sections {
		binary.LittleEndian.PutUint64(head[64+64*(1+i)+24:], uint64(len(head)))
	}
	return append(append(b, head...), contents...)
}
