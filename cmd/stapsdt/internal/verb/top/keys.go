package top

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"

	"github.com/gdamore/tcell/v2"
)

// state holds the choices made with keys.
type state struct {
	columns []column // by which rows can be sorted
	sort    *column
	filter  string
	typing  bool // whether keys are added to the filter
	paused  bool
	help    bool
	lower   bool // whether the selected row is in the table of open operations
	at      int  // the selected row
	// selected identifies the selected row even if the order changes.
	selected string
	opened   *subject // the row that is shown alone, or nil
	// first and firstOpen are the first visible rows of the tables, and scroll is the first visible
	// line of a row that is shown alone.
	first, firstOpen, scroll int
}

var helpLines = []string{
	"s, S     sort by the next or the previous column",
	"/        filter: type a part of the operation or its arguments, and Enter",
	"p        pause, and go on",
	"↑ ↓      select a row; Tab selects the other table",
	"Enter    open a row: its histogram, or all arguments and its parts; Esc goes back",
	"Ctrl-Z   suspend",
	"q        end, as Ctrl-C does",
}

// key handles a key, and reports whether it ends the screen.
func (st *state) key(e *tcell.EventKey, now *snapshot) (end bool) {
	switch {
	case e.Key() == tcell.KeyCtrlC:
		return true
	case st.typing:
		st.edit(e)
		return false
	case st.help:
		st.help = false
		return false
	}
	if now != nil && e.Key() != tcell.KeyRune { // the keys before it are not drawn yet
		st.follow(now.sorted(st.sort, st.filter), now.filtered(st.filter))
	}
	switch e.Key() {
	case tcell.KeyUp:
		st.move(-1)
	case tcell.KeyDown:
		st.move(1)
	case tcell.KeyPgUp:
		st.move(-10)
	case tcell.KeyPgDn:
		st.move(10)
	case tcell.KeyTab:
		st.lower, st.at, st.selected = !st.lower, 0, ""
	case tcell.KeyEnter:
		st.open(now)
	case tcell.KeyEsc, tcell.KeyBackspace, tcell.KeyBackspace2:
		if st.opened == nil {
			st.filter = ""
		}
		st.opened, st.scroll = nil, 0
	case tcell.KeyRune:
		return st.rune(e.Rune())
	}
	return false
}

func (st *state) rune(r rune) (end bool) {
	columns := st.columns
	i := slices.IndexFunc(columns, func(c column) bool { return c.name == st.sort.name })
	switch r {
	case 'q':
		return true
	case 's':
		st.sort = &columns[(i+1)%len(columns)]
	case 'S':
		st.sort = &columns[(i+len(columns)-1)%len(columns)]
	case '/':
		st.typing = true
	case 'p', ' ':
		st.paused = !st.paused
	case 'k':
		st.move(-1)
	case 'j':
		st.move(1)
	case '?', 'h':
		st.help = true
	}
	return false
}

// maxFilter is the maximum number of characters of a filter.
const maxFilter = 200

// edit handles a key while the filter is typed.
func (st *state) edit(e *tcell.EventKey) {
	switch e.Key() {
	case tcell.KeyEnter:
		st.typing = false
	case tcell.KeyEsc:
		st.typing, st.filter = false, ""
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		if runes := []rune(st.filter); len(runes) > 0 {
			st.filter = string(runes[:len(runes)-1])
		}
	case tcell.KeyRune:
		if len(st.filter) < maxFilter && unicode.IsPrint(e.Rune()) {
			st.filter += string(e.Rune())
		}
	}
}

func (st *state) move(by int) {
	if st.opened != nil {
		st.scroll += by
		return
	}
	st.at += by
	st.selected = ""
}

// follow moves the selection to the new position of its row, or keeps it within the table.
func (st *state) follow(rows []line, open []opened) {
	if st.lower && len(open) == 0 {
		st.lower, st.at, st.selected = false, 0, ""
	}
	names := len(rows)
	name := func(i int) string { return rows[i].title() }
	if st.lower {
		names, name = len(open), func(i int) string { return open[i].identity() }
	}
	for i := 0; st.selected != "" && i < names; i++ {
		if name(i) == st.selected {
			st.at = i
		}
	}
	st.at = min(max(st.at, 0), max(names-1, 0))
	if names > 0 {
		st.selected = name(st.at)
	}
}

// identity returns a string that distinguishes an open operation from others.
func (o *opened) identity() string { return fmt.Sprint(o.Operation, " ", o.PID, " ", o.key.Text) }

// subject is a row that is shown alone: an operation, or an open operation.
type subject struct {
	title string
	open  *opened // nil if an operation is shown
}

// open shows the selected row alone.
func (st *state) open(now *snapshot) {
	if now == nil || st.opened != nil {
		return
	}
	if !st.lower {
		if st.selected != "" {
			st.opened = &subject{title: st.selected}
		}
		return
	}
	for i := range now.open {
		if o := &now.open[i]; o.identity() == st.selected {
			st.opened = &subject{title: o.Operation, open: o}
		}
	}
}

// lines returns the lines that show the row.
func (s *subject) lines(now *snapshot, width int) []string {
	if s.open != nil {
		return s.openLines(now, width)
	}
	for i := range now.lines {
		l := &now.lines[i]
		if l.title() != s.title {
			continue
		}
		lines := append([]string{render.Printable(l.title()), ""}, now.rows([]line{*l}, width)...)
		var b bytes.Buffer
		l.histogram.Text(&b, width)
		lines = append(append(lines, ""), split(b.Bytes())...)
		var own []opened
		for _, o := range now.open {
			if l.of(&o) {
				own = append(own, o)
			}
		}
		if len(own) > 0 {
			lines = append(append(lines, ""), now.openRows(own, width)...)
		}
		return lines
	}
	return []string{render.Printable(s.title), "", "not among the operations now"}
}

// openLines returns all arguments of an operation, and whether it is still open.
func (s *subject) openLines(now *snapshot, width int) []string {
	o, status := s.open, "has ended, or others are open longer"
	for i := range now.open {
		if now.open[i].identity() == o.identity() {
			o, status = &now.open[i], "open for "+render.Duration(float64(now.open[i].Nanoseconds))
		}
	}
	at := fmt.Sprintf("process %d", o.PID)
	switch {
	case o.Goroutine != 0:
		at += fmt.Sprintf("  goroutine %d", o.Goroutine)
	case o.TID != 0:
		at += fmt.Sprintf("  thread %d", o.TID)
	}
	lines := []string{render.Printable(o.Operation), status, at, ""}
	key := o.parts
	if key == nil {
		key = []evaluate.Shown{o.key}
	}
	for _, v := range slices.Concat(key, o.by, o.args) {
		lines = append(lines, wrap(v.String(), width)...)
	}
	if now.parts == nil {
		return lines
	}
	if parts := now.parts.Lines(o.operation, width); parts != nil {
		lines = append(append(lines, ""), parts...)
	}
	return lines
}

// wrap divides a string into lines.
func wrap(text string, width int) (lines []string) {
	runes := []rune(text)
	for len(runes) > width && width > 2 {
		lines = append(lines, string(runes[:width]))
		runes = append([]rune("  "), runes[width:]...)
	}
	return append(lines, strings.TrimRight(string(runes), " "))
}
