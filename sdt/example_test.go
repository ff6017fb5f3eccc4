package sdt_test

import (
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/go-stapsdt/stapsdt/sdt"
)

// list prints the probes of a program or a library, such as an *os.File.
func list(file io.ReaderAt) {
	sites, err := sdt.Read(file)
	if errors.Is(err, sdt.ErrNoProbes) {
		return
	}
	if err != nil {
		log.Print(err) // the other notes were read
	}
	if err := sdt.ReadTypes(file, sites); err != nil {
		log.Print(err) // some arguments lack their names and types
	}
	for _, s := range sites {
		fmt.Printf("%s:%s at offset %#x\n", s.Provider, s.Name, s.Offset)
		for i, a := range s.Args {
			name := a.Name // from ReadTypes
			if name == "" {
				name = fmt.Sprint("arg", i)
			}
			if a.Err != nil {
				fmt.Printf("\t%s cannot be read: %v\n", name, a.Err)
			} else {
				fmt.Printf("\t%s has %d bytes: %v\n", name, a.Size, a)
			}
		}
	}
}

// Here, shop is a program in C with one probe, and without DWARF.
func Example() {
	list(shop)
	// Output:
	// shop:order__placed at offset 0x210
	// 	arg0 has 8 bytes: 8@%rdi
	// 	arg1 has 4 bytes: -4@%esi
	// 	arg2 cannot be read: operand "%fs:errno@tpoff": memory of the segment %fs is not supported
}
