package sdt

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
	"github.com/stretchr/testify/require"
)

func read(file []byte) ([]Site, error) { return Read(bytes.NewReader(file)) }

func TestRead(t *testing.T) {
	eachFormat(t, func(t *testing.T, f format) {
		args := map[elf.Machine]string{elf.EM_386: "-4@%eax 8@4(%esp)", elf.EM_X86_64: "-4@%eax 8@4(%rsp)", elf.EM_S390: "-4@%r2 8@164(%r15)"}[f.machine()]
		section := notes(f.sdtNote(0x1010, 0x1080, 0x2010, "app\x00first\x00"+args+"\x00"), f.sdtNote(0x1020, 0, 0, "app\x00second\x00\x00"))
		got, err := read(f.file(f.machine(), 0x1080, section))
		require.NoError(t, err)
		want := []Site{
			{Provider: "app", Name: "first", Address: 0x1010, base: 0x1080, Semaphore: 0x2010, Offset: 0x210, SemaphoreOffset: 0x310,
				Args: ParseArgs(f.machine(), args)},
			{Provider: "app", Name: "second", Address: 0x1020, Offset: 0x220},
		}
		require.Equal(t, want, got)
		require.NoError(t, errors.Join(got[0].Args[0].Err, got[0].Args[1].Err))

		// The file was prelinked 0x20 higher than when the notes were written.
		got, err = read(f.file(f.machine(), 0x10a0, section))
		require.NoError(t, err)
		want[0].Offset, want[0].SemaphoreOffset = 0x230, 0x330
		require.Equal(t, want, got)
		// And lower.
		got, err = read(f.file(f.machine(), 0x1078, section))
		require.NoError(t, err)
		require.EqualValues(t, 0x208, got[0].Offset)

		// Outside of its segment a site is nowhere, and the other one is read.
		got, err = read(f.file(f.machine(), 0x1180, section))
		require.ErrorContains(t, err, ".note.stapsdt+0x0: app:first: address 0x1110 is in no executable segment")
		require.Equal(t, want[1:], got)
	})
}

// TestSameArguments: notes that spell their arguments the same have their own.
func TestSameArguments(t *testing.T) {
	eachFormat(t, func(t *testing.T, f format) {
		section := notes(f.sdtNote(0x1010, 0, 0, "app\x00first\x004@1\x00"), f.sdtNote(0x1020, 0, 0, "app\x00second\x004@1\x00"))
		got, err := read(f.file(f.machine(), 0, section))
		require.NoError(t, err)
		require.Equal(t, got[0].Args, got[1].Args)
		got[0].Args[0].Name = "n"
		require.Empty(t, got[1].Args[0].Name)
	})
}

// Names that no program has would make every line about them as long.
func TestLongNames(t *testing.T) {
	f := formats[0]
	for length, ok := range map[int]bool{maxName: true, maxName + 1: false} {
		long := strings.Repeat("n", length)
		for _, text := range []string{long + "\x00probe\x00\x00", "app\x00" + long + "\x00\x00"} {
			got, err := read(f.file(f.machine(), 0, notes(f.sdtNote(0x1010, 0, 0, text), f.sdtNote(0x1020, 0, 0, "app\x00other\x00\x00"))))
			require.Equal(t, "other", got[len(got)-1].Name)
			if ok {
				require.NoError(t, err)
				require.Len(t, got, 2)
				continue
			}
			require.Len(t, got, 1)
			require.ErrorContains(t, err, "is longer than 1024 bytes")
			require.Less(t, len(err.Error()), 200)
		}
	}
}

func TestReadNothing(t *testing.T) {
	for _, f := range formats {
		_, err := read(f.file(f.machine(), 0x1080))
		require.ErrorIs(t, err, ErrNoProbes)
		_, err = read(f.file(f.machine(), 0x1080, notes(f.note(1, "GNU\x00", 4, nil))))
		require.ErrorIs(t, err, ErrNoProbes)
	}
	_, err := ReadFile("/no/such/file")
	require.Error(t, err)
	_, err = read(nil)
	require.ErrorIs(t, err, io.EOF)
	_, err = read(make([]byte, 64))
	require.ErrorContains(t, err, "bad magic number")
	require.NotErrorIs(t, err, ErrNoProbes)
}

func TestNotePadding(t *testing.T) {
	eachFormat(t, func(t *testing.T, f format) {
		for align, pad := range map[uint64]int{0: 4, 1: 4, 2: 4, 4: 4, 8: 8} {
			var data []byte
			// Texts of every length modulo eight, and notes of other owners and types between them.
			for n := range 9 {
				desc := f.desc(0x1000+uint64(n), 0, 0, "p\x00n"+strings.Repeat("x", n)+"\x00\x00")
				data = padTo(append(data, f.note(3, "stapsdt\x00", pad, desc)...), pad)
				data = padTo(append(data, f.note(3, "GNU\x00", pad, []byte("other"))...), pad)
				data = padTo(append(data, f.note(4, "stapsdt\x00", pad, []byte("other"))...), pad)
				data = padTo(append(data, f.note(1, "", pad, nil)...), pad)
			}
			section := notes(data)
			section.align = align
			probes, err := read(f.file(f.machine(), 0, section))
			require.NoError(t, err)
			require.Len(t, probes, 9)
			for n, p := range probes {
				require.EqualValues(t, 0x1000+n, p.Address)
				require.Equal(t, "n"+strings.Repeat("x", n), p.Name)
			}
		}
		section := notes(f.sdtNote(0x1000, 0, 0, "p\x00n\x00\x00"))
		section.align = 16
		_, err := read(f.file(f.machine(), 0, section))
		require.ErrorContains(t, err, "alignment")
	})
}

func TestDamagedNotes(t *testing.T) {
	eachFormat(t, func(t *testing.T, f format) {
		note := func(text string) []byte { return f.sdtNote(0x1000, 0, 0, text) }
		sizes := func(name, desc uint32) []byte {
			b := f.order.AppendUint32(nil, name)
			b = f.order.AppendUint32(b, desc)
			return append(f.order.AppendUint32(b, 3), "stapsdt\x00"...)
		}
		good := note("p\x00good\x00\x00")
		for name, tt := range map[string]struct {
			data []byte
			err  string
		}{
			"huge name":            {sizes(0xffffffff, 0), "the name's 4294967295 and the descriptor's 0 bytes exceed"},
			"huge descriptor":      {sizes(8, 0xffffffff), "the descriptor's 4294967295 bytes exceed"},
			"both huge":            {sizes(0xffffffff, 0xffffffff), "exceed"},
			"name past the end":    {sizes(9, 0), "exceed"},
			"no addresses":         {f.note(3, "stapsdt\x00", 4, nil), "0 bytes are too few for three addresses"},
			"no strings":           {note(""), "provider at"},
			"one string":           {note("p\x00"), "name at"},
			"two strings":          {note("p\x00n\x00"), "arguments at"},
			"arguments unfinished": {note("p\x00n\x004@%eax"), "arguments at"},
			"bytes after":          {note("p\x00n\x00\x00x"), "p:n: 1 bytes at"},
			"empty provider":       {note("\x00n\x00\x00"), `":n"`},
			"empty name":           {note("p\x00\x00\x00"), `"p":""`},
			"no segment":           {f.sdtNote(0x2000, 0, 0, "p\x00n\x00\x00"), "p:n: address 0x2000 is in no executable segment"},
			"no semaphore":         {f.sdtNote(0x1000, 0, 0x2040, "p\x00n\x00\x00"), "p:n: semaphore at 0x2040 is in no segment"},
			"garbage":              {[]byte{1}, "1 bytes are too few for the header of a note"},
		} {
			probes, err := read(f.file(f.machine(), 0, notes(good, tt.data)))
			require.ErrorContains(t, err, ".note.stapsdt+0x", name)
			if tt.err != `":n"` {
				require.ErrorContains(t, err, tt.err, name)
			}
			require.Len(t, probes, 1, name)
			require.Equal(t, "good", probes[0].Name)
		}
		// Zeros after the last string are padding, and a damaged note does not hide the next.
		probes, err := read(f.file(f.machine(), 0, notes(note("p\x00n\x00\x00\x00\x00"), note("p\x00"), good)))
		require.ErrorContains(t, err, "name at")
		require.Len(t, probes, 2)
	})
}

// Every prefix of a file is read or refused, and every section whose header was changed.
func TestDamagedFiles(t *testing.T) {
	eachFormat(t, func(t *testing.T, f format) {
		file := f.file(f.machine(), 0x1080, notes(f.sdtNote(0x1010, 0x1080, 0, "app\x00probe\x008@%eax\x00")))
		for cut := range file {
			_, err := read(file[:cut])
			require.Error(t, err, "cut to %d bytes", cut)
		}
		for at := range file {
			for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
				damaged := bytes.Clone(file)
				damaged[at] = b
				_, _ = read(damaged)
			}
		}
		for name, change := range map[string]part{
			"compressed": {flags: elf.SHF_COMPRESSED, kind: elf.SHT_NOTE},
			"type":       {kind: elf.SHT_PROGBITS},
		} {
			section := notes(f.sdtNote(0x1010, 0x1080, 0, "app\x00probe\x00\x00"))
			section.kind, section.flags = change.kind, change.flags
			_, err := read(f.file(f.machine(), 0x1080, section))
			require.ErrorContains(t, err, ".note.stapsdt+0x0: the section", name)
		}
		section := notes(f.sdtNote(0x1010, 0x1080, 0, "app\x00probe\x00\x00"))
		section.kind = elf.SHT_NOBITS
		_, err := read(f.file(f.machine(), 0x1080, section))
		require.ErrorIs(t, err, ErrNoProbes)
	})
}

// zeros is a file of zeros after its beginning, as large as an io.ReaderAt can be.
type zeros struct {
	head []byte
	asks *int64 // the bytes that were asked for
}

func (s zeros) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 {
		return 0, errors.New("negative offset")
	}
	*s.asks += int64(len(b))
	clear(b)
	if at < int64(len(s.head)) {
		copy(b, s.head[at:])
	}
	return len(b), nil
}

// What a file claims, it must have: sizes of 4 GiB and more cost neither memory nor time, in
// a short file and in one that is sparse and does have them.
func TestLengthsAreNotBelieved(t *testing.T) {
	f := formats[0]
	section := notes(f.sdtNote(0x1010, 0x1080, 0, "app\x00probe\x008@%eax\x00"))
	debug := part{name: ".debug_info", kind: elf.SHT_PROGBITS, data: make([]byte, 64)}
	file := f.file(elf.EM_X86_64, 0x1080, section, debug, part{name: ".debug_abbrev", kind: elf.SHT_PROGBITS, data: make([]byte, 64)})
	headers := f.order.Uint64(file[0x28:])
	for _, size := range []uint64{1 << 20, 4 << 30, 1 << 40, 1 << 62, math.MaxUint64} {
		for _, field := range []uint64{
			0x28, 0x3c - 4, headers + 0x20, headers + 2*64 + 0x18, headers + 2*64 + 0x20, headers + 3*64 + 0x18, headers + 3*64 + 0x20,
			headers + 5*64 + 0x18, headers + 5*64 + 0x20,
		} {
			damaged := bytes.Clone(file)
			f.order.PutUint64(damaged[field:], size)
			if field == headers+0x20 {
				f.order.PutUint16(damaged[0x3c:], 0) // as many sections as section 0 says
			}
			var asks int64
			for _, r := range []io.ReaderAt{bytes.NewReader(damaged), zeros{damaged, &asks}} {
				used := sparse.Allocated(func() {
					probes, _ := Read(r)
					if len(probes) == 0 {
						probes = []Site{{Address: 0x1010, Args: make([]Arg, 1)}}
					}
					_ = ReadTypes(r, probes)
				})
				require.Less(t, used, uint64(32<<20), "%#x at %#x", size, field)
			}
			require.Less(t, asks, int64(64<<20), "%#x at %#x", size, field)
		}
	}
}

// The largest file that is read costs a bounded amount of memory.
func TestMemory(t *testing.T) {
	f := formats[0]
	small := f.sdtNote(0x1010, 0, 0, "p\x00n\x00\x00")
	greedy := f.sdtNote(0x1010, 0, 0, "p\x00n\x00"+strings.Repeat("1@a ", 1000)+"\x00")
	for name, note := range map[string][]byte{"notes": small, "arguments": greedy} {
		data := bytes.Repeat(note, maxNotes/len(note))
		file := f.file(elf.EM_X86_64, 0, notes(data))
		var probes []Site
		used := sparse.Allocated(func() { probes, _ = read(file) })
		require.Greater(t, len(probes), 100, name)
		require.Less(t, used, uint64(400<<20), name)
	}
	data := bytes.Repeat(small, maxNotes/len(small)/2)
	_, err := read(f.file(elf.EM_X86_64, 0, notes(data), notes(data)))
	require.NoError(t, err)
	_, err = read(f.file(elf.EM_X86_64, 0, notes(data), notes(data), notes(data)))
	require.ErrorContains(t, err, "exceed the limit")
	// Errors are counted, too.
	bad := f.sdtNote(0x2000, 0, 0, "p\x00n\x00\x00")
	used := sparse.Allocated(func() { _, err = read(f.file(elf.EM_X86_64, 0, notes(bytes.Repeat(bad, maxNotes/len(bad))))) })
	require.ErrorIs(t, err, errTooMany)
	require.Less(t, used, uint64(400<<20))
}

// Many sections that are the same bytes are read no more often than the limit allows.
func TestOverlappingSections(t *testing.T) {
	f := formats[0]
	var parts []part
	const count = 500
	for range count {
		parts = append(parts, notes())
	}
	note := f.sdtNote(0x1010, 0, 0, "p\x00n\x00\x00")
	file := f.file(elf.EM_X86_64, 0, append(parts, notes(bytes.Repeat(note, 1<<20/len(note))))...)
	headers := f.order.Uint64(file[0x28:])
	last := headers + 64*(2+count)
	for i := range uint64(count) {
		copy(file[headers+64*(2+i)+0x18:], file[last+0x18:last+0x28])
	}
	var asks int64
	_, err := Read(zeros{file, &asks})
	require.ErrorContains(t, err, "exceed the limit")
	require.Less(t, asks, int64(2*maxNotes))
}

// TestDiscarded: notes whose code the linker has discarded, which have the offset of the site in a section that is not there, are left
// out, and no others, also where the segment of the code has the headers.
func TestDiscarded(t *testing.T) {
	eachFormat(t, func(t *testing.T, f format) {
		site := func(address uint64) []byte { return f.sdtNote(address, 0, 0, fmt.Sprintf("p\x00n%x\x00\x00", address)) }
		file := f.file(f.machine(), 0, notes(site(0), site(0x10), site(0xfff), site(0x1000)))
		found, err := read(file)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, "n1000", found[0].Name)
		_, err = read(f.file(f.machine(), 0, notes(site(0), site(0x10))))
		require.ErrorIs(t, err, ErrNoProbes)

		// The first segment begins with the file, at address 0.
		segment, word := 0x40, 8
		if f.class == elf.ELFCLASS32 {
			segment, word = 0x34, 4
		}
		headers := uint64(0x40 + 2*56)
		at := segment + 8 // of p_offset, after which comes p_vaddr
		if f.class == elf.ELFCLASS32 {
			headers, at = 0x34+2*32, segment+4
		}
		file = f.file(f.machine(), 0, notes(site(0), site(headers-1), site(headers), site(0x210)))
		clear(file[at : at+2*word])
		size := at + 3*word // after p_paddr
		copy(file[size:], f.desc(0x300, 0, 0, "")[:word])
		found, err = read(file)
		require.NoError(t, err)
		require.Len(t, found, 2)
		require.Equal(t, headers, found[0].Offset)
	})
}
