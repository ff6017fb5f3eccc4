//go:build linux

package debugfile

import (
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
)

const (
	// maxSummed is the maximum size of a file of which the checksum is compared, and of all files
	// that are read for an owner of processes within summedFor. maxLimited is the same for
	// processes that the user has not named.
	maxSummed  = 512 << 20
	maxLimited = 64 << 20
	summedFor  = time.Minute
	// maxSums is the maximum number of checksums that are kept.
	maxSums = 1 << 10
)

// checksums computes the checksums of files, which takes a second for a large one.
type checksums struct {
	mu    sync.Mutex
	limit int64
	known map[version]uint32
	// read are the bytes that were read since a time, by the owners of processes.
	read  map[proc.Owner]int64
	since time.Time
}

// version identifies a file and its content.
type version struct {
	device, inode uint64
	size          int64
	mtime, ctime  syscall.Timespec
}

// of returns the checksum of a file that may belong to a program.
func (c *checksums) of(p *Program, f *File) (uint32, error) {
	v := version{f.stat.Dev, f.stat.Ino, f.stat.Size, f.stat.Mtim, f.stat.Ctim}
	c.mu.Lock()
	sum, isKnown := c.known[v]
	c.mu.Unlock()
	if isKnown {
		return sum, nil
	}
	if v.size > maxSummed || !f.Named && !c.spend(p, v.size) {
		return 0, errTooLarge
	}
	hash := crc32.NewIEEE()
	if _, err := io.Copy(hash, io.NewSectionReader(f, 0, v.size)); err != nil {
		return 0, fmt.Errorf("cannot be read: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) == maxSums {
		c.known = map[version]uint32{}
	}
	c.known[v] = hash.Sum32()
	return c.known[v], nil
}

// spend counts bytes that are read for a program, and reports whether its owner may let them be
// read.
func (c *checksums) spend(p *Program, size int64) bool {
	if p.PID == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.since) > summedFor {
		c.read, c.since = map[proc.Owner]int64{}, now
	}
	owner := proc.OwnerOf(p.PID)
	if c.read[owner]+size > c.limit {
		return false
	}
	c.read[owner] += size
	return true
}
