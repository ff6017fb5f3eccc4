//go:build linux && (amd64 || arm64)

// Command ebpf attaches a BPF program to a probe through cilium/ebpf, prints the first two arguments of ten events, a
// line each, and ends. A PID of -1 is every process.
//
//	ebpf PID PATH PROVIDER PROBE
//
// cilium/ebpf knows uprobes, and nothing of SDT notes: where the probe is, it is told. The arguments are in the first
// two registers of the platform's C calling convention, as in every image.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

// events is how many events are printed, and patience how long they may take to come.
const (
	events   = 10
	patience = 10 * time.Second
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println(version())
		return
	}
	if len(os.Args) != 5 {
		log.Fatal("usage: ebpf PID PATH PROVIDER PROBE")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		log.Fatal(err)
	}
}

// version is that of the cilium/ebpf that this program was built with.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/cilium/ebpf" {
				return m.Version
			}
		}
	}
	return "?"
}

func run(pid, path, provider, probe string) error {
	process, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	offset, err := find(path, provider, probe)
	if err != nil {
		return err
	}
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 16})
	if err != nil {
		return fmt.Errorf("ring buffer: %w", err)
	}
	defer ring.Close()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, License: "GPL", Instructions: sendTwo(ring)})
	if err != nil {
		return fmt.Errorf("program: %w", err)
	}
	defer program.Close()
	reader, err := ringbuf.NewReader(ring)
	if err != nil {
		return fmt.Errorf("reader: %w", err)
	}
	defer reader.Close()

	file, err := link.OpenExecutable(path)
	if err != nil {
		return err
	}
	options := &link.UprobeOptions{Address: offset}
	if process > 0 {
		options.PID = process
	}
	attached, err := file.Uprobe(probe, program, options)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	defer attached.Close()
	return print(reader)
}

func print(reader *ringbuf.Reader) error {
	reader.SetDeadline(time.Now().Add(patience))
	for range events {
		record, err := reader.Read()
		if err != nil {
			return err
		}
		first := binary.NativeEndian.Uint64(record.RawSample)
		second := binary.NativeEndian.Uint64(record.RawSample[8:])
		fmt.Println(first, int64(second))
	}
	return nil
}

// find returns the place of the probe in the file.
func find(path, provider, probe string) (uint64, error) {
	notes, err := sdt.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for _, n := range notes {
		if n.Provider == provider && n.Name == probe {
			return n.Offset, nil
		}
	}
	return 0, errors.New("no such probe")
}

// sendTwo is a program that sends the first two arguments: it gets a struct pt_regs, copies two words of it onto its
// stack, and from there into the ring.
func sendTwo(ring *ebpf.Map) asm.Instructions {
	first, second := int16(0), int16(8) // arm64: x0 and x1
	if runtime.GOARCH == "amd64" {
		first, second = 14*8, 13*8 // rdi and rsi
	}
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, first, asm.DWord),
		asm.StoreMem(asm.RFP, -16, asm.R2, asm.DWord),
		asm.LoadMem(asm.R2, asm.R1, second, asm.DWord),
		asm.StoreMem(asm.RFP, -8, asm.R2, asm.DWord),
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -16),
		asm.Mov.Imm(asm.R3, 16),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}
}
