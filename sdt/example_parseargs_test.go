package sdt_test

import (
	"debug/elf"
	"fmt"

	"github.com/go-stapsdt/stapsdt/sdt"
)

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
