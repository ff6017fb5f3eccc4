//go:build linux

package source

import (
	"bytes"
	"encoding/binary"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

// cursor reads values one after the other. After the end it returns zeros, and short is true.
type cursor struct {
	b     []byte
	at    int
	order binary.ByteOrder
	short bool
}

// end moves the cursor to the end, because a value exceeds it.
func (c *cursor) end() {
	c.at, c.short = len(c.b), true
}

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.b)-c.at) {
		c.end()
		return
	}
	c.at += int(n)
}

// uint reads a number of 1 to 8 bytes.
func (c *cursor) uint(size int) uint64 {
	b := c.b[c.at:]
	if c.skip(uint64(size)); c.short {
		return 0
	}
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(c.order.Uint16(b))
	case 3:
		if c.order.Uint16([]byte{1, 0}) == 1 {
			return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16
		}
		return uint64(b[2]) | uint64(b[1])<<8 | uint64(b[0])<<16
	case 4:
		return uint64(c.order.Uint32(b))
	case 8:
		return c.order.Uint64(b)
	}
	c.end()
	return 0
}

func (c *cursor) uleb() uint64 {
	if c.at < len(c.b) && c.b[c.at] < 0x80 {
		c.at++
		return uint64(c.b[c.at-1])
	}
	n, rest, ok := debuginfo.ULEB(c.b[c.at:])
	if !ok {
		c.end()
		return 0
	}
	c.at = len(c.b) - len(rest)
	return n
}

func (c *cursor) sleb() int64 {
	n, rest, ok := debuginfo.SLEB(c.b[c.at:])
	if !ok {
		c.end()
		return 0
	}
	c.at = len(c.b) - len(rest)
	return n
}

// text reads a string that ends with a zero.
func (c *cursor) text() []byte {
	b := c.b[c.at:]
	n := bytes.IndexByte(b, 0)
	if n < 0 {
		c.end()
		return nil
	}
	c.at += n + 1
	return b[:n]
}

// block reads n bytes.
func (c *cursor) block(n uint64) []byte {
	b := c.b[c.at:]
	if c.skip(n); c.short {
		return nil
	}
	return b[:n]
}
