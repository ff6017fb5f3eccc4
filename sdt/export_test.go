package sdt

import (
	"bytes"
	"io"
)

// ShopFile returns an ELF file with a probe, for the example.
func ShopFile() io.ReaderAt {
	f := formats[0]
	text := "shop\x00order__placed\x008@%rdi -4@%esi -4@%fs:errno@tpoff\x00"
	return bytes.NewReader(f.file(f.machine(), 0, notes(f.sdtNote(0x1010, 0, 0, text))))
}
