//go:build linux

package child

import "syscall"

// Request asks a child to read from the descriptor that comes with it. The child sends a byte when
// it has started, and answers to requests: an errno, which is 0 without an error, and the bytes
// that it has read.
type Request struct {
	Offset int64
	Size   int
}

const (
	// HeadBytes is the size of the errno of an answer.
	HeadBytes = 4
	// MaxBytes is the maximum number of bytes that a request reads.
	MaxBytes = 16 << 10

	offsetBytes, sizeBytes = 8, 4
)

// Append appends the message of the request.
func (r Request) Append(b []byte) []byte {
	return appendNumber(appendNumber(b, uint64(r.Offset), offsetBytes), uint64(r.Size), sizeBytes)
}

// parse returns the request of a message.
func parse(b []byte) Request {
	return Request{int64(number(b[:offsetBytes])), min(int(number(b[offsetBytes:])), MaxBytes)}
}

// Errno returns the errno of an answer.
func Errno(answer []byte) syscall.Errno { return syscall.Errno(number(answer[:HeadBytes])) }

// Package encoding/binary would be initialized too late.
func appendNumber(b []byte, n uint64, size int) []byte {
	for i := range size {
		b = append(b, byte(n>>(8*i)))
	}
	return b
}

func number(b []byte) (n uint64) {
	for i, part := range b {
		n |= uint64(part) << (8 * i)
	}
	return n
}

// serveReads answers requests until the connection ends.
func serveReads() {
	_ = syscall.SetNonblock(Requests, false)
	in, control := make([]byte, offsetBytes+sizeBytes), ControlBuffer()
	answer := make([]byte, HeadBytes+MaxBytes)
	_ = send(answer[:1])
	for {
		n, fds, err := receive(Requests, in, control)
		if err != nil || n < len(in) || len(fds) != 1 {
			return
		}
		r := parse(in)
		n, err = syscall.Pread(fds[0], answer[HeadBytes:HeadBytes+r.Size], r.Offset)
		errno, _ := err.(syscall.Errno)
		appendNumber(answer[:0], uint64(errno), HeadBytes)
		syscall.Close(fds[0])
		if send(answer[:HeadBytes+max(n, 0)]) != nil {
			return
		}
	}
}

func send(b []byte) error {
	return syscall.Sendmsg(Requests, b, nil, nil, syscall.MSG_NOSIGNAL)
}
