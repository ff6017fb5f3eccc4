package console

import (
	"bytes"
	"io"
	"os"
)

// pipeBuf is PIPE_BUF: a write of at most this many bytes to a pipe is atomic, even if it has to
// wait for room.
const pipeBuf = 4096

// lines writes whole lines, as many at a time as fit into one atomic write.
type lines struct{ to io.Writer }

func (l lines) Write(b []byte) (written int, err error) {
	for err == nil && written < len(b) {
		part := b[written:]
		if len(part) > pipeBuf {
			end := bytes.LastIndexByte(part[:pipeBuf], '\n')
			if end < 0 { // a longer line is written on its own
				end = bytes.IndexByte(part, '\n')
			}
			if end >= 0 {
				part = part[:end+1]
			}
		}
		var n int
		n, err = l.to.Write(part)
		written += n
	}
	return written, err
}

// Share makes the lines of standard output whole where another process writes lines to the same
// pipe or socket.
func (c *Console) Share() {
	f, isFile := c.Out.(*os.File)
	if !isFile {
		return
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
		c.Out = lines{f}
	}
}
