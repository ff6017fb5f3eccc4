//go:build linux

package deputy

import (
	"encoding/binary"
	"net"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/internal/wire"

	"golang.org/x/sys/unix"
)

// A deputy is any program that has this package, so that tests have one too.
func init() {
	if len(os.Args) == 1 && os.Args[0] == name {
		serve()
		os.Exit(0)
	}
}

// serve answers requests until the connection, which is descriptor 3, ends.
func serve() {
	file := os.NewFile(3, "requests")
	conn, err := net.FileConn(file)
	peer, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		return
	}
	file.Close()
	closeInherited()
	in, files := make([]byte, binary.Size(request{})), fileBuffer()
	for closing.Load() < maxClosing {
		n, filled, _, _, err := peer.ReadMsgUnix(in, files)
		fds := wire.Descriptors(files[:filled])
		if err != nil || n < len(in) || len(fds) != 1 {
			return
		}
		var r request
		_, _ = binary.Decode(in, binary.NativeEndian, &r)
		answer, memory := r.serve(fds[0])
		unix.Close(fds[0])
		var rights []byte
		if memory >= 0 {
			rights = unix.UnixRights(memory)
		}
		if _, _, err := peer.WriteMsgUnix(answer, rights, nil); err != nil {
			return
		}
		if memory >= 0 {
			unix.Close(memory)
		}
	}
}

// closeInherited closes the descriptors that a shell left to the command, such as ends of pipes.
func closeInherited() {
	all, _ := os.ReadDir("/proc/self/fd")
	for _, f := range all {
		fd, _ := strconv.Atoi(f.Name())
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if fd > 2 && err == nil && flags&unix.FD_CLOEXEC == 0 { // ours would not pass to a program
			unix.Close(fd)
		}
	}
}

// closing counts the descriptors that are being closed. With maxClosing, the deputy ends.
var closing atomic.Int32

const maxClosing = 64

// serve does what is requested with a descriptor. memory is a descriptor for the answer, or -1.
func (r *request) serve(fd int) (answer []byte, memory int) {
	answer = make([]byte, headBytes+min(r.Size, maxBytes))
	b := answer[headBytes:]
	var n int
	var err error
	memory = -1
	switch r.Kind {
	case kindReceive:
		n, memory, err = receive(fd, b)
	case kindRead:
		n, err = unix.Pread(fd, b, r.Offset)
	}
	if errno, ok := err.(unix.Errno); ok {
		binary.NativeEndian.PutUint32(answer, uint32(errno))
	}
	return answer[:headBytes+max(n, 0)], memory
}

// receive receives what has arrived. Of the descriptors that come with it, it returns the first one
// of a memfd, or -1. Neither its seals nor its close ask a file system. To close another descriptor
// can take for ever.
func receive(fd int, b []byte) (n, memory int, err error) {
	files := fileBuffer()
	n, filled, _, _, err := unix.Recvmsg(fd, b, files, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	memory = -1
	for _, received := range wire.Descriptors(files[:max(filled, 0)]) {
		_, sealErr := unix.FcntlInt(uintptr(received), unix.F_GET_SEALS, 0)
		switch {
		case sealErr == nil && memory < 0:
			memory = received
		case sealErr == nil:
			unix.Close(received)
		default:
			closing.Add(1)
			go func() {
				unix.Close(received)
				closing.Add(-1)
			}()
		}
	}
	return n, memory, err
}

// fileBuffer returns a buffer for all descriptors that a message can have.
func fileBuffer() []byte { return make([]byte, unix.CmsgSpace(4*253)) }
