package dlang

import (
	"fmt"
	goscanner "go/scanner"
	gotoken "go/token"
)

// Pos is a position in a file. Lines and columns begin at 1, and columns count bytes.
type Pos = gotoken.Position

// Errors are the errors of a file, in the order in which they were found.
type Errors = goscanner.ErrorList

func add(e *Errors, pos Pos, format string, args ...any) { e.Add(pos, fmt.Sprintf(format, args...)) }
