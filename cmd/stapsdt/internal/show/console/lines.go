package console

import (
	"bytes"
	"io"
	"os"
)

// pipeBuf is PIPE_BUF: so many bytes get into a pipe without those of another process in between,
// even if the pipe is full.
const pipeBuf = 4096

// lines writes whole lines, as many at a time as get into a pipe together.
type lines struct{ to io.Writer }

func (l lines) Write(b []byte) (written int, err error) {
	for err == nil && written < len(b) {
		part := b[written:]
		if len(part) > pipeBuf {
			end := bytes.LastIndexByte(part[:pipeBuf], '\n')
			if end < 0 { // a line that does not get in as a whole is written alone
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
