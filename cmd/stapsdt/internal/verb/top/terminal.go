package top

import (
	"io"
	"os"
	"strings"
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
	before    [2]byte          // the last two bytes
	last      time.Time        // when a part was added
}

func newKeys() *keys { return &keys{events: make(chan tcell.Event, 2*maxInput)} }

// sequencePatience is the maximum time between two parts of a key's escape sequence.
const sequencePatience = 100 * time.Millisecond

// add adds a part. Bytes that are not UTF-8 are characters of Latin-1. The processor begins again
// after a pause, and where no sequence can go on.
func (k *keys) add(part []byte) {
	if time.Since(k.last) > sequencePatience {
		k.begin()
		k.rest = nil
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
	from := 0
	for i, b := range all[:whole] {
		if k.interrupts(b) {
			k.processor.ScanUTF8(all[from:i])
			k.begin()
			from = i
		}
		k.before = [2]byte{k.before[1], b}
	}
	k.processor.ScanUTF8(all[from:whole])
	k.rest = append([]byte(nil), all[whole:]...)
}

func (k *keys) begin() { k.processor = tcell.NewInputProcessor(k.events) }

// interrupts reports whether a byte is a key, although the processor would take it for a part of a
// sequence. That is Ctrl-C, and a key after Alt-], Alt-X, Alt-^ or Alt-_: the processor takes all
// keys from there on for a text of the terminal. Such a text follows Alt-] only, and begins with a
// number. A pause before the key does not tell, because a busy machine reads both together.
func (k *keys) interrupts(b byte) bool {
	text := k.before[0] == '\x1b' && strings.IndexByte("]X^_", k.before[1]) >= 0
	number := k.before[1] == ']' && b >= '0' && b <= '9'
	return b == ctrlC || text && !number
}

const ctrlC = 'C' - '@'

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
