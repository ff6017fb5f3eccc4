//go:build linux

package layout

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Shares divides the room of a table among the users of the machine: each may have as many entries
// as are free. One user can have half of the table, and the next one half of the rest.
type Shares struct {
	Owners *ebpf.Map // the number of entries of each owner
	All    *ebpf.Map // the number of all entries, in one element
	Limit  int
}

// maxOwners is the number of owners that are kept. The kernel drops the owners that were not seen
// for the longest time.
const maxOwners = 1 << 13

// NewShares divides the room for a number of entries.
func NewShares(limit int) (s *Shares, err error) {
	s = &Shares{Limit: limit}
	s.Owners, err = ebpf.NewMap(
		&ebpf.MapSpec{
			Name: "owners", Type: ebpf.LRUHash, KeySize: 8, ValueSize: 8, MaxEntries: maxOwners,
		},
	)
	if err != nil {
		return nil, err
	}
	s.All, err = ebpf.NewMap(
		&ebpf.MapSpec{Name: "all", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
	)
	if err != nil {
		return nil, errors.Join(err, s.Owners.Close())
	}
	return s, nil
}

// Close closes the tables. They may be nil.
func (s *Shares) Close() {
	if s != nil {
		s.Owners.Close()
		s.All.Close()
	}
}

// Set sets the number of entries of each owner. It loses the changes of concurrent events, which
// the next call includes.
func (s *Shares) Set(counts map[uint64]int64) error {
	var owner uint64
	var count int64
	var gone []uint64
	for entries := s.Owners.Iterate(); entries.Next(&owner, &count); {
		if counts[owner] == 0 {
			gone = append(gone, owner)
		}
	}
	for _, owner := range gone {
		_ = s.Owners.Delete(owner)
	}
	all := int64(0)
	for owner, count := range counts {
		all += count
		if err := s.Owners.Put(owner, count); err != nil {
			return fmt.Errorf("count the entries of an owner: %w", err)
		}
	}
	return s.All.Put(uint32(0), all)
}
