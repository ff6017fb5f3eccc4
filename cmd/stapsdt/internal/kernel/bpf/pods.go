//go:build linux

package bpf

import (
	"encoding/binary"
	"errors"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// errNoPods is the error for expressions that use the names of pods where these are unknown.
var errNoPods = errors.New("the names of pods are known to commands on a node of Kubernetes, which has /var/log/containers")

// PodNames maps the IDs of control groups to the names of pods and of their containers. Expressions
// read them as strings.
type PodNames struct{ names *ebpf.Map }

// A value of the map holds the names in the order of fromNamespace and the kinds after it. Each has
// its length with the NUL, and the beginning of the string.
const (
	podNames = int(1 + fromNode - fromNamespace)
	podName  = 8 + textSlot
)

// NewPodNames returns an empty PodNames.
func NewPodNames() (*PodNames, error) {
	names, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "pods", Type: ebpf.Hash, KeySize: 8, ValueSize: uint32(podNames) * podName,
		MaxEntries: maxCgroups,
	})
	if err != nil {
		return nil, MapError(err)
	}
	return &PodNames{names}, nil
}

// Put sets the names for a control group.
func (p *PodNames) Put(id uint64, pod *recording.Pod) error {
	var all [podNames * podName]byte
	names := [podNames]string{pod.Namespace, pod.Name, pod.Container, pod.Workload, pod.Node}
	for i, name := range names {
		at := all[i*podName:]
		n := copy(at[8:8+value.TextSize-1], name)
		if len(name) > n {
			n = copy(at[8:8+value.TextSize], name) // a string of this size counts as cut
		}
		binary.NativeEndian.PutUint64(at, uint64(n+1))
	}
	return p.names.Put(id, all[:])
}

// Delete removes a control group.
func (p *PodNames) Delete(id uint64) { _ = p.names.Delete(id) }

// Close releases the map.
func (p *PodNames) Close() {
	if p != nil {
		p.names.Close()
	}
}

// podText puts a name of the pod onto the stack. It is empty outside of pods.
func (b *builder) podText(s origin) error {
	if b.env.Pods == nil {
		return errNoPods
	}
	t := b.emptyText(s)
	known, done := b.fresh("pod"), b.fresh("podDone")
	b.add(asm.FnGetCurrentCgroupId.Call(), asm.StoreMem(asm.RFP, b.word, asm.R0, asm.DWord))
	b.lookup(b.env.Pods.names.FD(), b.word)
	b.add(
		asm.JNE.Imm(asm.R0, 0, known),
		asm.Mov.Imm(asm.R1, 1), // the NUL
		asm.StoreMem(asm.RFP, t.length, asm.R1, asm.DWord),
	)
	b.jump(done)
	b.label(known)
	from := int16(s.kind-fromNamespace) * podName
	b.copy(asm.RFP, t.length, asm.R0, from, 8)
	b.copy(asm.RFP, t.at, asm.R0, from+8, textSlot)
	b.label(done)
	return nil
}
