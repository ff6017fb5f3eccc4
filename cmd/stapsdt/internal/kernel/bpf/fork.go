//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// FollowForks adds the children of the processes in a set to the set, until the link is closed. It
// may also add new threads of the processes. It needs a kernel that describes its types, or tracefs
// and the initial PID namespace.
func FollowForks(processes *ebpf.Map, ns *Namespace) (*ebpf.Program, link.Link, error) {
	env := &Env{Processes: processes, Namespace: ns}
	var err error
	if ns == nil {
		prog, l, tracepointErr := followTracepoint(env)
		if tracepointErr == nil {
			return prog, l, nil
		}
		err = tracepointErr
	}
	prog, l, rawErr := followRaw(env)
	if rawErr == nil {
		return prog, l, nil
	}
	if errors.Is(rawErr, ErrLockdown) { // which is why tracefs cannot be read either
		return nil, nil, rawErr
	}
	return nil, nil, errors.Join(err, rawErr)
}

// followTracepoint reads the child's PID from the record of the tracepoint, which is quick to find
// where tracefs is mounted. It is the PID in the initial namespace.
func followTracepoint(env *Env) (*ebpf.Program, link.Link, error) {
	child, err := childOffset()
	if err != nil {
		return nil, nil, err
	}
	return forks(env, ebpf.TracePoint, func(b *builder) {
		b.add(
			asm.LoadMem(asm.R0, regContext, child, asm.Word),
			asm.StoreMem(asm.RFP, b.word, asm.R0, asm.Word),
		)
	}, func(prog *ebpf.Program) (link.Link, error) {
		return link.Tracepoint("sched", "sched_process_fork", prog, nil)
	})
}

// followRaw reads the child's PID from its task_struct, which is the tracepoint's second argument.
func followRaw(env *Env) (*ebpf.Program, link.Link, error) {
	attach := rawTracepoint("sched_process_fork")
	if env.Namespace != nil {
		if _, err := numberMembers(); err != nil {
			return nil, nil, err
		}
		return forks(env, ebpf.RawTracepoint, func(b *builder) {
			b.add(asm.LoadMem(asm.R0, regContext, 8, asm.DWord))
			b.numbers()
			b.add(
				asm.RSh.Imm(asm.R0, 32),
				asm.JEq.Imm(asm.R0, 0, labelExit),
				asm.StoreMem(asm.RFP, b.word, asm.R0, asm.Word),
			)
		}, attach)
	}
	tgid, err := kernelOffsets("task_struct.tgid")
	if err != nil {
		return nil, nil, err
	}
	return forks(env, ebpf.RawTracepoint, func(b *builder) {
		b.stack(asm.R1, b.word)
		b.add(
			asm.Mov.Imm(asm.R2, 4),
			asm.LoadMem(asm.R3, regContext, 8, asm.DWord),
			asm.Add.Imm(asm.R3, tgid[0]),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, labelExit),
		)
	}, attach)
}

// forks attaches a program that runs in the parent and adds a child. The code of child leaves its
// PID in the builder's word.
func forks(
	env *Env, kind ebpf.ProgramType, child func(*builder),
	attach func(*ebpf.Program) (link.Link, error),
) (*ebpf.Program, link.Link, error) {
	b := newBuilder(env, nil)
	b.begin()
	child(b)
	value := b.alloc(8)
	b.add(asm.Mov.Imm(asm.R5, 1), asm.StoreMem(asm.RFP, value, asm.R5, asm.DWord))
	b.update(env.Processes, b.word, value, ebpf.UpdateAny)
	return b.start("forks", kind, attach)
}

var childField = lazyregexp.New(`\bpid_t child_pid;\s*offset:(\d+);\s*size:4;`)

// childOffset returns the offset of the child's PID in the record of the tracepoint
// sched_process_fork. It differs between kernels.
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
		match := childField().FindSubmatch(format)
		if match == nil {
			return 0, fmt.Errorf("sched_process_fork has no child_pid")
		}
		offset, err := strconv.ParseInt(string(match[1]), 10, 16)
		return int16(offset), err
	}
	return 0, first
}
