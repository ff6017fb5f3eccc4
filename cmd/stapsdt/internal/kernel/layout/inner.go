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
	return remove(inner, func(key []byte) bool {
		return !lives(int(uint32(binary.NativeEndian.Uint64(key))))
	})
}

// Clear removes all entries of a map.
func Clear(m *ebpf.Map) error { return remove(m, func([]byte) bool { return true }) }

// remove removes the entries with some keys.
func remove(m *ebpf.Map, which func(key []byte) bool) error {
	var keys [][]byte
	err := each(m, func(key, _ []byte) {
		if which(key) {
			keys = append(keys, bytes.Clone(key))
		}
	})
	for _, key := range keys {
		_ = m.Delete(key) // a program may have removed it meanwhile
	}
	return err
}
