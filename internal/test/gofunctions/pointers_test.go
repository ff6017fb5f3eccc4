//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// pointing passes parts of strings: the bytes after each part are in upper case.
const pointing = `package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

type (
	text string
	data []byte
	pair struct {
		s *string
		b []byte
		two [2]string
		many [3][]byte
		in  struct{ in struct{ in struct{ in struct{ in struct{ deep string } } } } }
	}
	edge struct {
		fill [504]byte
		s    string
	}
)

//go:noinline
func plain(s *string, t *text, b *[]byte, d *data, e *string, n *string) int { return len(*s) + len(*t) + len(*b) + len(*d) }

//go:noinline
func nested(ps **string, ss *[]string, as *[2]string, a *any, e *error, m *map[string]string) int {
	return len(**ps) + len(*ss) + len(as) + len(*m)
}

//go:noinline
func structs(p *pair, pp **pair, f *func(), c *chan string, x *edge) (ret *string) { return p.s }

//go:noinline
func (t *text) method() int { return len(*t) }

//go:noinline
func part(n int) string { return strings.Repeat("abcde", 1)[:n] + strings.Repeat("SECRET", 20) }

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	all := part(5)
	s, t, b, empty := all[:5], text(all[:3]), []byte(all), ""
	d, err, a := data(b[1:4]), errors.New(all[:4]), any(all[:4])
	b = b[:4]
	ps, ss, as, m := &s, []string{s}, [2]string{s, all[1:3]}, map[string]string{s: s}
	n := plain(&s, &t, &b, &d, &empty, nil) + nested(&ps, &ss, &as, &a, &err, &m) + t.method()
	p := &pair{s: &s, b: b, two: as, many: [3][]byte{b, nil, d}}
	p.in.in.in.in.in.deep = s
	f, c := func() {}, make(chan string)
	n += len(*structs(p, &p, &f, &c, &edge{s: s}))
	fmt.Println("done", n)
	in.ReadString('\n')
}
`

// TestPointers: what a pointer leads to is shown by its type, and never what lies after a string.
func TestPointers(t *testing.T) {
	testenv.NeedsRoot(t)
	path := build(t, pointing, nil)
	address := regexp.MustCompile(`0x[0-9a-f]{2,}`)
	for spec, want := range map[string]struct{ line, object string }{
		"go:main.plain": {
			`s="abcde" t="abc" b="abcd" d="bcd" e="" n=0x0`,
			`{"s":"abcde","t":"abc","b":"abcd","d":"bcd","e":"","n":"0x0"}`,
		},
		"go:main.nested": {
			`ps=A ss={len=1} as=A a=A e=A m=A`,
			`{"ps":"A","ss":{"len":1},"as":"A","a":"A","e":"A","m":"A"}`,
		},
		"go:main.(*text).method": {`t="abc"`, `{"t":"abc"}`},
		"go:main.structs": {
			`p={s=A b="abcd" two=["abcde" "bc"] many=["abcd" "" "bcd"] in={in={in={in={in={deep=…}}}}}} ` +
				`pp=A f=A c=A x={…}`,
			`{"p":{"s":"A","b":"abcd","two":["abcde","bc"],"many":["abcd","","bcd"],` +
				`"in":{"in":{"in":{"in":{"in":{"deep":null}}}}}},"pp":"A","f":"A","c":"A",` +
				`"x":{"fill":"` + strings.Repeat(`\u0000`, 504) + `","s":null}}`,
		},
		"go:main.structs:return": {`ret="abcde"`, `{"ret":"abcde"}`},
	} {
		t.Run(spec, func(t *testing.T) {
			for _, format := range []string{"text", "json", "csv"} {
				lines := launch(t, path).run([]string{spec}, "trace", "-v", "-o", format)
				require.NotEmpty(t, lines)
				last := address.ReplaceAllString(lines[len(lines)-1], "A")
				assert.NotContains(t, strings.Join(lines, "\n"), "SECRET")
				switch format {
				case "text":
					assert.True(t, strings.HasSuffix(last, " "+want.line), last)
				case "json":
					var e struct{ Args json.RawMessage }
					objects.Decode(t, last, &e)
					assert.Equal(t, want.object, string(e.Args))
				}
			}
		})
	}
}
