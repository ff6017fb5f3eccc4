package top

import (
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/term"
)

// terminal is the terminal of a screen. It keeps the input from tcell, and delivers it in parts.
// tcell would loop forever at a byte that is not UTF-8, and would not end while there is unread
// input, such as a long text that was pasted.
type terminal struct {
	tcell.Tty
	// input has the parts, and nil after the terminal was closed.
	input   chan []byte
	stopped chan struct{} // closed when the input ends, until the next Start
	reading sync.WaitGroup
}

// maxInput is the maximum number of bytes of a part, and thus of the keys in it.
const maxInput = 128

func (t *terminal) Start() error {
	if err := t.Tty.Start(); err != nil {
		return err
	}
	stopped := make(chan struct{})
	t.stopped = stopped
	t.reading.Go(func() { t.pass(stopped) })
	return nil
}

// pass delivers the input until stopped is closed.
func (t *terminal) pass(stopped chan struct{}) {
	for {
		part := make([]byte, maxInput)
		n, err := t.Tty.Read(part)
		if err != nil {
			part, n = nil, 0
		}
		select {
		case t.input <- part[:n]:
		case <-stopped:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read waits until the input ends.
func (t *terminal) Read([]byte) (int, error) {
	<-t.stopped
	return 0, io.EOF
}

func (t *terminal) Drain() error {
	close(t.stopped)
	return t.Tty.Drain()
}

func (t *terminal) Stop() error {
	t.reading.Wait()
	return t.Tty.Stop()
}

// keys turns input into the keys that were pressed.
type keys struct {
	processor tcell.InputProcessor
	events    chan tcell.Event // has room for the keys of a part
	rest      []byte           // the beginning of a character
	last      time.Time        // when a part was added
}

func newKeys() *keys { return &keys{events: make(chan tcell.Event, 2*maxInput)} }

// sequencePatience is the maximum time between two parts of a key's escape sequence.
const sequencePatience = 100 * time.Millisecond

// add adds a part. Bytes that are not UTF-8 are characters of Latin-1. After a pause, the processor
// begins again: it takes the keys after Alt-] for a command that the terminal has not ended.
func (k *keys) add(part []byte) {
	if time.Since(k.last) > sequencePatience {
		k.processor, k.rest = tcell.NewInputProcessor(k.events), nil
	}
	defer func() { k.last = time.Now() }()
	all := append(k.rest, part...)
	whole := len(all)
	for i := 1; i < utf8.UTFMax && i <= len(all); i++ {
		if first := all[len(all)-i]; utf8.RuneStart(first) {
			if first >= utf8.RuneSelf && !utf8.FullRune(all[len(all)-i:]) {
				whole -= i
			}
			break
		}
	}
	k.processor.ScanUTF8(all[:whole])
	k.rest = append([]byte(nil), all[whole:]...)
}

// restorer returns a function that restores a terminal without tcell, which may wait for the
// terminal.
func restorer(tty *os.File) (func(), error) {
	info, err := tcell.LookupTerminfo(os.Getenv("TERM"))
	if err != nil {
		return nil, err
	}
	settings, err := term.GetState(int(tty.Fd()))
	keyboard := "\x1b[<u\x1b[>4;0m" // ends what tcell requests of terminals that are like xterm
	return func() {
		_ = term.Restore(int(tty.Fd()), settings)
		for _, s := range []string{
			keyboard, info.AttrOff, info.ExitKeypad, info.EnableAutoMargin, info.ShowCursor,
			info.ExitCA,
		} {
			info.TPuts(tty, s)
		}
	}, err
}
