//go:build linux

package layout

import (
	"bytes"
	"encoding/binary"

	"github.com/cilium/ebpf"
)

// InnerKey is the size of a key of the time inside calls: a word for the ID of a kind and the PID,
// and the goroutine. InnerAll is the ID that stands for all kinds.
const (
	InnerKey = 16
	InnerAll = 1<<31 - 1
)

// PurgeInner removes the time inside calls of processes that have ended.
func PurgeInner(inner *ebpf.Map, lives func(pid int) bool) error {
	var dead [][]byte
	err := each(inner, func(key, _ []byte) {
		if !lives(int(uint32(binary.NativeEndian.Uint64(key)))) {
			dead = append(dead, bytes.Clone(key))
		}
	})
	for _, key := range dead {
		_ = inner.Delete(key) // a new process with the same PID may have removed it
	}
	return err
}
