//go:build linux

package deputy

import (
	"encoding/binary"
	"net"
	"os"

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
	in, files := make([]byte, binary.Size(request{})), fileBuffer()
	for {
		n, filled, _, _, err := peer.ReadMsgUnix(in, files)
		fds := descriptors(files[:filled])
		if err != nil || n < len(in) || len(fds) != 1 {
			return
		}
		var r request
		_, _ = binary.Decode(in, binary.NativeEndian, &r)
		answer, rights := r.serve(fds[0])
		unix.Close(fds[0])
		if _, _, err := peer.WriteMsgUnix(answer, rights, nil); err != nil {
			return
		}
	}
}

// serve does what is requested with a descriptor.
func (r *request) serve(fd int) (answer, rights []byte) {
	answer = make([]byte, headBytes+min(r.Size, maxBytes))
	b := answer[headBytes:]
	var n int
	var err error
	switch r.Kind {
	case kindReceive:
		n, rights, err = receive(fd, b)
	case kindRead:
		n, err = unix.Pread(fd, b, r.Offset)
	}
	if errno, ok := err.(unix.Errno); ok {
		binary.NativeEndian.PutUint32(answer, uint32(errno))
	}
	return answer[:headBytes+max(n, 0)], rights
}

// receive receives what has arrived. Of the descriptors that come with it, it returns the first one
// of a memfd. The kernel knows its seals without asking a file system. No other descriptor is
// closed, because that could wait.
func receive(fd int, b []byte) (n int, rights []byte, err error) {
	files := fileBuffer()
	n, filled, _, _, err := unix.Recvmsg(fd, b, files, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, nil, err
	}
	for _, received := range descriptors(files[:filled]) {
		_, err := unix.FcntlInt(uintptr(received), unix.F_GET_SEALS, 0)
		if err == nil && rights == nil {
			rights = unix.UnixRights(received)
		}
	}
	return n, rights, nil
}

// fileBuffer returns a buffer for all descriptors that a message can have.
func fileBuffer() []byte { return make([]byte, unix.CmsgSpace(4*253)) }

// descriptors returns the descriptors in the control messages of a message.
func descriptors(control []byte) (all []int) {
	messages, _ := unix.ParseSocketControlMessage(control)
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i]) // it fails for another kind of message
		all = append(all, fds...)
	}
	return all
}
