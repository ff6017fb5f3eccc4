package sdt_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/go-stapsdt/stapsdt/sdt"
)

// This program lists the probes of a file.
func Example() {
	f, err := os.Open("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	probes, err := sdt.Read(f)
	if errors.Is(err, sdt.ErrNoProbes) {
		return
	}
	if err != nil {
		log.Print(err) // there may be others
	}
	if err := sdt.ReadTypes(f, probes); err != nil {
		log.Print(err) // there are still the notes
	}
	for _, p := range probes {
		fmt.Printf("%s:%s at %#x\n", p.Provider, p.Name, p.Offset)
		for i, a := range p.Args {
			fmt.Printf("\targ%d %s %v %v\n", i, a.Name, a.Type, a)
		}
	}
}

func ExampleParseArgs() {
	for _, a := range sdt.ParseArgs(elf.EM_X86_64, "-4@%esi 8@16(%rsp) 4@$7 8@%fs:errno@tpoff") {
		switch o := a.Operand; o.Kind {
		case sdt.OperandRegister:
			fmt.Printf("%d bits of %s\n", o.Base.Bits, o.Base.Full)
		case sdt.OperandMemory:
			fmt.Printf("%d bytes at %s%+d\n", a.Size, o.Base.Full, o.Displacement)
		case sdt.OperandConstant:
			fmt.Println("always", o.Displacement)
		default:
			fmt.Println(a.Err)
		}
	}
	// Output:
	// 32 bits of %rsi
	// 8 bytes at %rsp+16
	// always 7
	// operand "%fs:errno@tpoff": memory of the segment %fs is not supported
}
