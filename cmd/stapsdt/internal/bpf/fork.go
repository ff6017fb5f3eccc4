//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// FollowForks adds the children of the processes in a set to the set, until the link is closed. It may also add new
// threads of the processes. It needs tracefs, or a kernel that describes its types.
func FollowForks(processes *ebpf.Map) (*ebpf.Program, link.Link, error) {
	prog, l, err := followTracepoint(processes)
	if err == nil {
		return prog, l, nil
	}
	prog, l, rawErr := followRaw(processes)
	if rawErr == nil {
		return prog, l, nil
	}
	return nil, nil, errors.Join(err, rawErr)
}

// followTracepoint reads the child's PID from the record of the tracepoint, which is quick to find where tracefs is
// mounted.
func followTracepoint(processes *ebpf.Map) (*ebpf.Program, link.Link, error) {
	child, err := childOffset()
	if err != nil {
		return nil, nil, err
	}
	return forks(processes, ebpf.TracePoint, func(b *builder) {
		b.add(
			asm.LoadMem(asm.R0, regContext, child, asm.Word),
			asm.StoreMem(asm.RFP, b.word, asm.R0, asm.Word),
		)
	}, func(prog *ebpf.Program) (link.Link, error) {
		return link.Tracepoint("sched", "sched_process_fork", prog, nil)
	})
}

// followRaw reads the child's PID from its task_struct, which is the tracepoint's second argument.
func followRaw(processes *ebpf.Map) (*ebpf.Program, link.Link, error) {
	tgid, err := kernelOffsets("task_struct.tgid")
	if err != nil {
		return nil, nil, err
	}
	return forks(processes, ebpf.RawTracepoint, func(b *builder) {
		b.stack(asm.R1, b.word)
		b.add(
			asm.Mov.Imm(asm.R2, 4),
			asm.LoadMem(asm.R3, regContext, 8, asm.DWord),
			asm.Add.Imm(asm.R3, tgid[0]),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, labelExit),
		)
	}, func(prog *ebpf.Program) (link.Link, error) {
		return link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_fork", Program: prog})
	})
}

// forks attaches a program that runs in the parent and adds a child. The code of child leaves its PID in the builder's
// word.
func forks(processes *ebpf.Map, kind ebpf.ProgramType, child func(*builder), attach func(*ebpf.Program) (link.Link, error)) (*ebpf.Program, link.Link, error) {
	b := newBuilder(&Env{Processes: processes}, nil)
	b.begin()
	child(b)
	value := b.alloc(8)
	b.add(asm.Mov.Imm(asm.R5, 1), asm.StoreMem(asm.RFP, value, asm.R5, asm.DWord))
	b.update(processes, b.word, value, ebpf.UpdateAny)
	b.leaveProgram()
	ins, err := b.finish()
	if err != nil {
		return nil, nil, err
	}
	prog, err := Preemption{}.load(&ebpf.ProgramSpec{Name: "forks", Type: kind, Instructions: ins, License: license})
	if err != nil {
		return nil, nil, err
	}
	l, err := attach(prog)
	if err != nil {
		return nil, nil, errors.Join(err, prog.Close())
	}
	return prog, l, nil
}

var childField = regexp.MustCompile(`\bpid_t child_pid;\s*offset:(\d+);\s*size:4;`)

// childOffset returns the offset of the child's PID in the record of the tracepoint sched_process_fork. It differs
// between kernels.
func childOffset() (int16, error) {
	var first error
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		format, err := os.ReadFile(dir + "/events/sched/sched_process_fork/format")
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		match := childField.FindSubmatch(format)
		if match == nil {
			return 0, fmt.Errorf("sched_process_fork has no child_pid")
		}
		offset, err := strconv.ParseInt(string(match[1]), 10, 16)
		return int16(offset), err
	}
	return 0, first
}
