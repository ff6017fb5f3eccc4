//go:build linux

package stack

import (
	"io"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/symbol"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// JSONRow is a row of counts with its stack in JSON.
type JSONRow struct {
	count.JSONHead
	jsonStack
}

// encode writes an object for each row.
func (o *Options) encode(to io.Writer, rows []row) error {
	encoder := render.NewEncoder(to)
	for _, r := range rows {
		object := JSONRow{count.NewJSONHead(r.Row, o.By), newJSONStack(r.Stack)}
		if err := encoder.Encode(object); err != nil {
			return err
		}
	}
	return nil
}

// jsonStack is a stack in JSON: its frames, the innermost first, and the reason if it was cut.
type jsonStack struct {
	Stack []jsonFrame `json:"stack" doc:"innermost function first; the others are its callers"`
	Cut   string      `json:"cut,omitempty" doc:"reason; callers are missing"`
}

// jsonFrame is a function in a stack.
type jsonFrame struct {
	Function string `json:"function" doc:"name"`
	File     string `json:"file,omitempty" doc:"source file"`
	Line     int    `json:"line,omitempty" doc:"in the source file"`
	Module   string `json:"module,omitempty" doc:"program or library"`
}

// newJSONStack converts a stack to JSON.
func newJSONStack(s *symbol.Stack) jsonStack {
	j := jsonStack{Stack: []jsonFrame{}}
	for i := range s.Frames {
		f := &s.Frames[i]
		for k, name := range f.Names() {
			frame := jsonFrame{Function: name}
			if k < len(f.Functions) && f.Functions[k].File != "" {
				frame.File, frame.Line = f.Functions[k].File, f.Functions[k].Line
			}
			if f.Module != nil {
				frame.Module = f.Module.Name()
			}
			j.Stack = append(j.Stack, frame)
		}
	}
	if s.Cut != symbol.Whole {
		j.Cut = s.Cut.String()
	}
	return j
}
