//go:build linux && (amd64 || arm64)

package bpf

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// Need skips a test, or fails it where the environment says CI=true, when the kernel or the user has no uprobe_multi.
func Need(t testing.TB) {
	t.Helper()
	testenv.NeedsRoot(t)
	testenv.NeedsMachine(t, "uprobe_multi (Linux 6.6)", features.HaveBPFLinkUprobeMulti(), ebpf.ErrNotSupported)
}

// Site is a trace point that a program is attached to, and the number that it knows it by.
type Site struct {
	sdt.Site
	Cookie uint64
}

// Sites numbers the notes of a file from 0.
func Sites(path string) ([]Site, error) {
	notes, err := sdt.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sites := make([]Site, len(notes))
	for i, n := range notes {
		sites[i] = Site{n, uint64(i)}
	}
	return sites, nil
}

// program is a program that uprobe_multi can attach.
type program struct{ prog *ebpf.Program }

func (p *program) load(name string, insns asm.Instructions) error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         name,
		Type:         ebpf.Kprobe,
		AttachType:   ebpf.AttachTraceUprobeMulti,
		Flags:        unix.BPF_F_SLEEPABLE,
		Instructions: insns,
		License:      "MIT",
	})
	if err != nil {
		var said *ebpf.VerifierError
		if errors.As(err, &said) {
			err = fmt.Errorf("%w\n%+v", err, said)
		}
		return fmt.Errorf("load %s: %w", name, err)
	}
	p.prog = prog
	return nil
}

// Attach attaches the program to sites of a file, until the link that it returns is closed.
func (p *program) Attach(path string, sites []Site) (link.Link, error) {
	file, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	var opts link.UprobeMultiOptions
	for _, s := range sites {
		opts.Addresses = append(opts.Addresses, s.Offset)
		opts.Cookies = append(opts.Cookies, s.Cookie)
	}
	l, err := file.UprobeMulti(nil, p.prog, &opts)
	if err != nil {
		return nil, fmt.Errorf("attach to %d sites of %s: %w", len(sites), path, err)
	}
	return l, nil
}
