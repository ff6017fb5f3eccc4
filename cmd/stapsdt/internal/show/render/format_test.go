package render

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// texts are texts with what the notations escape, beside each other and with what they do not escape.
func texts() (all []string) {
	pieces := []string{
		"", "a", "GET /items", `"`, `\`, "\n", "\r", "\t", "\x00", "\x1b[2J", "~", "\x7f", "\x80", "ä", "日本",
		"\xff", "\xc3", "\xe2\x82", "\u2028", "\u009b", "\u00a0", "\u00ad", "😀", "\U000e0001", "\U0010ffff",
		"\xed\xa0\x80", "<>&", "\ufffd", "=", " ", ",", "'",
	}
	for _, a := range pieces {
		for _, b := range pieces {
			all = append(all, a+b, strings.Repeat(a, 40)+b, a+"plain"+b)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r < 0x3000 || r%61 == 0 {
			all = append(all, string(r))
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		var b []byte
		for range random.IntN(20) {
			b = append(b, byte(random.Uint32()>>random.IntN(3)))
		}
		all = append(all, string(b))
	}
	return all
}

// TestTexts: texts in quotes are those of package strconv, and those in JSON and tables what their rules say of each rune.
func TestTexts(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		r := &records{output: output{Style: Style{Terminal: terminal}}}
		for _, text := range texts() {
			var object, cell strings.Builder
			for _, c := range text {
				switch high, low := utf16.EncodeRune(c); {
				case c == '"' || c == '\\':
					object.WriteString(`\` + string(c))
				case c == '\n':
					object.WriteString(`\n`)
				case unicode.IsPrint(c):
					object.WriteRune(c)
				case low != utf8.RuneError:
					fmt.Fprintf(&object, `\u%04x\u%04x`, high, low)
				default:
					fmt.Fprintf(&object, `\u%04x`, c)
				}
				switch {
				case c == '"':
					cell.WriteString(`""`)
				case c == '\t', c == '\n' && !terminal, unicode.IsPrint(c):
					cell.WriteRune(c)
				default:
					cell.WriteRune(utf8.RuneError)
				}
			}
			want := []string{strconv.Quote(text), `"` + object.String() + `"`, `"` + object.String() + `"`, cell.String()}
			if strings.ContainsAny(text, "\",\r\n") {
				want[3] = `"` + want[3] + `"`
			}
			got := []string{
				string(forPeople.text(nil, []byte(text), false)), string(AppendJSONString(nil, text)),
				string(asJSON.text(nil, []byte(text), false)), string(r.quote(nil, []byte(text))),
			}
			for i := range want { // require.Equal would take seconds
				if want[i] != got[i] {
					require.Equal(t, want, got, "%q", text)
				}
			}
		}
	}
}

// TestLine: the columns of a line are aligned with their titles, whatever their colors are.
func TestLine(t *testing.T) {
	for _, color := range []bool{false, true} {
		style := Style{Color: color, Pods: true}
		l := NewPrinter(query.Text, style)
		head := recording.Event{Realtime: 1_234_567, PID: 42}
		head.Pod = &recording.Pod{Namespace: "ns", Name: "a-pod-with-a-long-name", Container: "main"}
		p := &Probe{Items: []value.Item{{Name: "n", Type: intType}}}
		comm, n := []byte("app"), []value.Value{{Bits: 7}}
		l.Event(p, comm, eventOf(probeOf("app", "p\x1b", p.Items), head, p.Items, n))
		l.Event(&Probe{}, comm, eventOf(probeOf("app", "none", nil), head, nil, nil))
		head.Pod = nil
		l.Event(p, nil, eventOf(probeOf("app", "p\x1b", p.Items), head, p.Items, n))
		paint := func(color, text string) string {
			if style.Color {
				return color + text + plain
			}
			return text
		}
		clock := paint(dim, time.Unix(0, head.Realtime).Format("15:04:05.000000"))
		pod := "ns/a-pod-with-a-long-name/main"
		want := paint(dim, fmt.Sprintf("%-15s %7s %-15s %-30s %-24s ARGUMENTS", "TIME", "PID", "COMM", "POD", "PROBE")) + "\n" +
			clock + "      42 app             " + pod + " " + paint(bold, "app:p\ufffd") + strings.Repeat(" ", 16) + " " + paint(cyan, "n=") + "7\n" +
			clock + "      42 app             " + pod + " " + paint(bold, "app:none") + "\n" +
			clock + "      42 -               " + strings.Repeat(" ", 30) + " " + paint(bold, "app:p\ufffd") + strings.Repeat(" ", 16) + " " + paint(cyan, "n=") + "7\n"
		require.Equal(t, want, string(content(l)))
	}
}

// happening is an event with its values.
type happening struct {
	probe int
	comm  []byte
	event *recording.Event
}

// probeOf returns a probe with arguments that items describe.
func probeOf(provider, name string, items []value.Item) *recording.Probe {
	p := &recording.Probe{Provider: provider, Name: name}
	for _, item := range items {
		p.Args = append(p.Args, item.Arg())
	}
	return p
}

// eventOf returns an event of a probe with a head and with values that items describe.
func eventOf(p *recording.Probe, head recording.Event, items []value.Item, values []value.Value) *recording.Event {
	e := &recording.Event{}
	e.Reset(p, &head)
	for i, v := range values {
		if items[i].Type.Kind == expr.String {
			e.SetText(i, v.Text)
		} else {
			e.Set(i, v.Bits)
		}
		if v.Missing {
			e.Unreadable |= 1 << i
		}
		if v.Cut {
			e.Cut |= 1 << i
		}
	}
	return e
}

// happenings returns the probes and the events of several threads, processes and pods in turns.
func happenings() (probes []Probe, known []*recording.Probe, all []happening) {
	random := rand.New(rand.NewPCG(5, 6))
	text := texts()
	types := []expr.Type{{Kind: expr.String}, {Kind: expr.Bool, Size: 1}, {Kind: expr.Float, Size: 4}, {Kind: expr.Float, Size: 8}}
	for _, size := range []int{1, 2, 4, 8} {
		types = append(types, expr.Type{Kind: expr.Int, Size: size}, expr.Type{Kind: expr.Uint, Size: size})
	}
	for _, unit := range []kind.Unit{kind.Nanoseconds, kind.Address, kind.Moment} {
		types = append(types, expr.Type{Kind: expr.Int, Size: 8, Unit: unit})
	}
	for i, name := range []string{"none", "request__start", "a\x1b[1m", strings.Repeat("wide", 20), "日本"} {
		p := Probe{}
		for j := range i * 3 {
			name := []string{"path", "parent", "n\"", "é\x00", "x"}[j%5]
			p.Items = append(p.Items, value.Item{Name: name, Type: types[(i*7+j)%len(types)]})
			last := &p.Items[j]
			last.Bare = last.Type.Kind == expr.String && j%7 == 5
		}
		probes = append(probes, p)
		known = append(known, probeOf([]string{"app", "ä\n"}[i%2], name, p.Items))
	}
	pods := []*recording.Pod{nil, {Namespace: "ns", Name: "pod", Container: "main"}, {Namespace: "ns", Name: strings.Repeat("p", 40), Container: "c\n"}}
	at := int64(1_700_000_000_000_000_000)
	for range 3000 {
		at += random.Int64N(1 << random.IntN(31))
		h := happening{probe: random.IntN(len(probes))}
		head := recording.Event{Realtime: at, PID: 1}
		switch random.IntN(4) { // and otherwise the same again
		case 0:
			head.PID = uint32(random.Uint64() >> random.IntN(64))
		case 1:
			head.TID, h.comm = uint32(random.IntN(3)), []byte(text[random.IntN(len(text))])
		case 2:
			head.Pod, h.comm = pods[random.IntN(len(pods))], []byte("app")
		}
		var values []value.Value
		for range probes[h.probe].Items {
			v := value.Value{Bits: random.Uint64() >> random.IntN(65), Missing: random.IntN(20) == 0}
			if !v.Missing {
				v.Text, v.Cut = []byte(text[random.IntN(len(text))]), random.IntN(10) == 0
			}
			values = append(values, v)
		}
		h.event = eventOf(known[h.probe], head, probes[h.probe].Items, values)
		all = append(all, h)
	}
	return probes, known, all
}

// TestKept: a printer prints of each event what a new one prints, although it keeps parts of those before.
func TestKept(t *testing.T) {
	probes, of, all := happenings()
	for _, format := range query.Formats {
		for _, style := range []Style{{}, {Color: true, Pods: true}, {Terminal: true, Open: true}} {
			style.Warn = func(string, ...any) {}
			width := 0 // of the titles, and then of the column of pods, which becomes wider
			widest := recording.Event{Pod: &recording.Pod{Name: strings.Repeat("p", maxPodWidth)}}
			fresh := func() Printer {
				p := NewPrinter(format, style)
				for _, known := range of {
					p.Know(known)
				}
				p.Event(&Probe{}, nil, eventOf(probeOf("app", "first", nil), widest, nil, nil))
				width = p.Size()
				return p
			}
			kept := fresh()
			known := append([]Probe(nil), probes...)
			for _, h := range all {
				before := kept.Size()
				kept.Event(&known[h.probe], h.comm, h.event)
				one, probe := fresh(), probes[h.probe]
				one.Event(&probe, h.comm, h.event)
				got, want := content(kept)[before:], content(one)[width:]
				if !bytes.Equal(want, got) {
					require.Equal(t, string(want), string(got), format)
				}
			}
		}
	}
}

// content returns the text that a printer has added.
func content(p Printer) []byte {
	switch p := p.(type) {
	case *lines:
		return p.buf
	case *objects:
		return p.buf
	}
	return p.(*records).buf
}
