package top

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"

	"github.com/gdamore/tcell/v2"
)

// screen shows snapshots on a terminal, and handles keys. One goroutine draws, and another makes
// the snapshots.
type screen struct {
	tcell.Screen
	to        *console.Console
	terminal  *terminal
	snapshots chan *snapshot
	warnings  warnings
	restore   sync.Once
	state     state
	now       *snapshot // the snapshot that is drawn, or nil
	drawn     []string  // the lines that were drawn, without the footer
}

// warnings keeps the output to standard error until the terminal is restored.
type warnings struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// maxWarnings is the maximum number of bytes of warnings that are kept.
const maxWarnings = 64 << 10

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all.Len() < maxWarnings {
		w.all.Write(b)
	}
	return len(b), nil
}

// last returns the last line.
func (w *warnings) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(w.all.String())
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// openScreen returns a screen on a terminal, or nil if the output is not a terminal with keys, or
// is unknown.
func openScreen(to *console.Console, device string) *screen {
	if _, _, ok := console.Size(to.Out); !ok {
		return nil
	}
	restore, err := restorer(to.Out.(*os.File))
	if err != nil {
		return nil
	}
	tty, err := openTTY(device)
	if err != nil {
		return nil
	}
	terminal := &terminal{Tty: tty, input: make(chan []byte)}
	t, err := tcell.NewTerminfoScreenFromTty(terminal)
	if err != nil || t.Init() != nil {
		return nil
	}
	to.Restore(restore)
	return &screen{
		Screen: t, terminal: terminal, to: to, snapshots: make(chan *snapshot, 1),
		state: state{columns: columns, sort: defaultColumn},
	}
}

// take passes a snapshot to the drawing goroutine, and replaces one that is not drawn yet.
func (s *screen) take(new *snapshot) error {
	for {
		select {
		case s.snapshots <- new:
			return nil
		default:
		}
		select {
		case <-s.snapshots:
		default:
		}
	}
}

// close restores the terminal.
func (s *screen) close() { s.restore.Do(s.Fini) }

// run draws the snapshots that follow makes, until follow returns or a key or ctx ends it. The
// terminal is restored before follow detaches from probes, which may take a while.
func (s *screen) run(
	ctx context.Context, follow func(context.Context, *console.Console) error,
) (err error) {
	defer s.close()
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				s.close()
				panic(p)
			}
		}()
		done <- follow(following, &console.Console{Out: s.to.Out, Err: &s.warnings})
	}()
	ended := s.loop(ctx, done)
	s.close()
	s.printLast()
	cancel()
	if ended == nil {
		err = <-done
	} else {
		err = *ended
	}
	s.to.Finish()
	_, _ = s.to.Err.Write(s.warnings.all.Bytes())
	return err
}

// printLast writes the last screen, without the footer, to the terminal that was restored.
func (s *screen) printLast() {
	if s.now == nil || len(s.drawn) == 0 {
		return
	}
	lines := strings.TrimRight(strings.Join(s.drawn[:len(s.drawn)-1], "\n"), "\n")
	_, _ = fmt.Fprintln(s.to.Out, lines)
}

// loop draws until a key, ctx or follow ends it. In the last case, it returns the result of follow.
func (s *screen) loop(ctx context.Context, done chan error) *error {
	resizes, quit := make(chan tcell.Event), make(chan struct{})
	defer close(quit)
	go s.ChannelEvents(resizes, quit)
	keys := newKeys()
	stops := make(chan os.Signal, 1)
	notifyStop(stops)
	defer signal.Stop(stops)
	s.draw()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-done:
			return &err
		case <-stops:
			s.suspend()
		case now := <-s.snapshots:
			if !s.state.paused {
				s.now = now
			}
		case <-resizes:
			s.Sync()
		case part := <-s.terminal.input:
			if part == nil { // the terminal was closed
				return nil
			}
			keys.add(part)
		case e := <-keys.events:
			if s.press(e) {
				return nil
			}
		}
		for len(keys.events) > 0 { // before the next part, for which there must be room
			if s.press(<-keys.events) {
				return nil
			}
		}
		s.draw()
	}
}

// press handles a key, and reports whether it ends the screen.
func (s *screen) press(e tcell.Event) (end bool) {
	key, ok := e.(*tcell.EventKey)
	if ok && key.Key() == tcell.KeyCtrlZ {
		s.suspend()
		return false
	}
	return ok && s.state.key(key, s.now)
}

// suspend restores the terminal and stops the process group until the shell continues it, as the
// terminal does without this screen.
func (s *screen) suspend() {
	if !continues() || s.Suspend() != nil {
		return
	}
	stop()
	_ = s.Resume()
	s.Sync()
}

var (
	plain    = tcell.StyleDefault
	heading  = plain.Reverse(true)
	faint    = plain.Dim(true)
	strong   = plain.Bold(true)
	selected = plain.Bold(true).Underline(true)
)

// put writes a line, cut to the width. Strings of programs are printable already.
func (s *screen) put(y int, style tcell.Style, line string) {
	width, height := s.Size()
	if y < 0 || y >= height {
		return
	}
	s.drawn[y] = text.Cut(line, width)
	if style == heading {
		line += strings.Repeat(" ", max(width-text.Width(line), 0))
	}
	s.PutStrStyled(0, y, line, style)
}

// draw draws the last snapshot.
func (s *screen) draw() {
	s.Clear()
	s.HideCursor()
	width, height := s.Size()
	s.drawn = make([]string, max(height, 0))
	switch {
	case height < 1 || width < 1:
	case s.now == nil:
		s.put(0, plain, "waiting for events; q ends")
		s.put(1, faint, s.warnings.last())
	case s.state.help:
		for y, line := range helpLines {
			s.put(y, plain, line)
		}
	case s.state.opened != nil:
		s.drawLines(s.state.opened.lines(s.now, width), height)
	default:
		s.drawTables(width, height)
	}
	s.Show()
}

// drawLines draws the lines of one row that is open.
func (s *screen) drawLines(lines []string, height int) {
	s.state.scroll = min(max(s.state.scroll, 0), max(len(lines)-height+1, 0))
	for y, line := range lines[min(s.state.scroll, len(lines)):] {
		if y < height-1 {
			s.put(y, plain, line)
		}
	}
	s.put(height-1, faint, "Esc back  ↑↓ scroll  q end")
}

// drawTables draws both tables and the footer.
func (s *screen) drawTables(width, height int) {
	y := 0
	line := func(style tcell.Style, text string) {
		if y < height-1 {
			s.put(y, style, text)
		}
		y++
	}
	line(strong, s.now.head(width))
	for _, note := range s.now.notes() {
		line(plain, note)
	}
	st := &s.state
	rows, open := s.now.sorted(st.sort, st.filter), s.now.filtered(st.filter)
	st.follow(rows, open)
	room := max(height-1-y-3, 2) // all but the headings and the line between the tables
	forRows := min(len(rows), max(room-len(open), room/2))
	st.first = window(st.first, st.at, forRows, len(rows), !st.lower)
	st.firstOpen = window(st.firstOpen, st.at, max(room-forRows, 1), len(open), st.lower)
	texts := s.now.rows(rows[st.first:st.first+forRows], width)
	for i, text := range texts {
		line(style(i, st.at-st.first, !st.lower), text)
	}
	y++
	if shownOpen := min(len(open)-st.firstOpen, height-1-y-1); shownOpen > 0 {
		for i, text := range s.now.openRows(open[st.firstOpen:st.firstOpen+shownOpen], width) {
			line(style(i, st.at-st.firstOpen, st.lower), text)
		}
	}
	s.put(height-1, faint, st.footer(s.warnings.last(), width))
}

// style returns the style of line i of a table. Line 0 is the heading.
func style(i, at int, focused bool) tcell.Style {
	switch {
	case i == 0:
		return heading
	case focused && i == at+1:
		return selected
	}
	return plain
}

// window returns the index of the first visible row, such that the selected row is visible.
func window(first, at, room, rows int, focused bool) int {
	if focused {
		first = min(max(first, at-room+1), at)
	}
	return max(min(first, rows-room), 0)
}

// footer returns the help for the keys, or the warning.
func (st *state) footer(warning string, width int) string {
	var parts []string
	switch {
	case st.typing:
		return "filter: " + st.filter + "_"
	case st.filter != "":
		parts = append(parts, "filter "+st.filter)
	}
	if st.paused {
		parts = append(parts, "paused")
	}
	parts = append(parts, "sorted by "+strings.ToLower(st.sort.name))
	if width < 40 {
		return strings.Join(append([]string{"? help"}, parts...), "  ")
	}
	parts = append(parts, "s sort  / filter  p pause  Enter open  ? help  q end")
	if warning != "" {
		parts = append(parts, warning)
	}
	return fmt.Sprint(strings.Join(parts, "  "))
}
